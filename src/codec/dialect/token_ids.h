// Token ids as clients send them. Pure functions.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/status.h"

namespace sluice::codec {

// Appends the ids of a JSON list, which must be below `n_vocabulary`. `path` is the list's name;
// errors name the element.
Status ReadTokenIds(std::string_view path,
                    const JsonValue& list,
                    int32_t n_vocabulary,
                    std::vector<TokenId>& ids);

}  // namespace sluice::codec
