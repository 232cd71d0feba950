#include "codec/dialect/spaced_json.h"

namespace sluice::codec {

// The compact text already has the right escapes and numbers; only the blanks are missing.
std::string SpacedJson(const JsonValue& value) {
  const std::string compact = value.ToText();
  std::string spaced;
  spaced.reserve(compact.size() + compact.size() / 8);
  bool in_string = false;
  for (size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    spaced += c;
    if (in_string && c == '\\') {
      spaced += compact[++i];
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == ',' || c == ':')) {
      spaced += ' ';
    }
  }
  return spaced;
}

}  // namespace sluice::codec
