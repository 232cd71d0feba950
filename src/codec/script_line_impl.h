// One line of a script file, parsed (spec script-format.md §1, §2). Private to script_book.cc and
// script_line.cc.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "wire/request.h"

namespace sluice::codec {

inline constexpr int64_t kAlways = -1;

struct ScriptConditions {
  std::optional<std::string> api;
  std::optional<bool> tools;
  std::optional<std::string> tool;
  std::optional<std::string> last;
  std::optional<std::string> prompt;
};

struct ScriptLine {
  ScriptConditions when;
  int64_t times = 1;               // kAlways: no end
  std::optional<std::string> out;  // fitted when chosen; else play.ids or play.refuse
  wire::ScriptPlay play;
};

// `value`: a string or an object. Errors name the key; the caller adds the line.
Result<ScriptLine> ReadScriptLine(const JsonValue& value, int32_t n_vocabulary);

}  // namespace sluice::codec
