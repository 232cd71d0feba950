// JSON as the model was trained to read it (spec recipe.md §4): ", " and ": ", members in the order
// received, numbers as a Python program would print them. Pure functions; nothing recurses.

#pragma once

#include <string>

#include "base/json.h"

namespace sluice::codec {

void AppendJsonText(const JsonValue& value, std::string& out);

}  // namespace sluice::codec
