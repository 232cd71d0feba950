// The reasoning effort as the OpenAI APIs write it (spec recipe.md §3.6). Pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace sluice::codec {

inline constexpr int32_t kEffortOff = 0;  // `none`

// 1-100 or kEffortOff. `numbers`: an integer is taken, too.
Status ReadEffort(std::string_view path,
                  const JsonValue& value,
                  bool numbers,
                  std::optional<int32_t>& effort);

}  // namespace sluice::codec
