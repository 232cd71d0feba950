// JSON text as it stands in prompts: ", " and ": " between its parts (spec recipe.md §4). Pure.

#pragma once

#include <string>

#include "base/json.h"

namespace sluice::codec {

std::string SpacedJson(const JsonValue& value);

}  // namespace sluice::codec
