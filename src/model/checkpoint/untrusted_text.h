// Text from a model folder on its way into an error message: short, on one line, and harmless to a
// terminal. Pure functions.

#pragma once

#include <string>
#include <string_view>

namespace sluice::model {

// Printable ASCII without spaces, quotes and backslashes, within kMaxTensorNameBytes: what names
// of tensors and files may be, so that everybody may print them as they are.
bool IsPlainName(std::string_view name);
inline constexpr std::string_view kPlainNameRule =
    "a name has 1 to 256 printable ASCII characters, without spaces, quotes and backslashes";

// "text" in quotes, escaped; cut to some 60 bytes.
std::string Quote(std::string_view text);

// A compact JSON text (JsonValue::ToText), which is escaped already; cut in the same way.
std::string Shorten(std::string_view json);

}  // namespace sluice::model
