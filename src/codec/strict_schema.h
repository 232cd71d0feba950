// Schemas of strict mode as the model and the sampler get them (spec recipe.md §6.2): only what can
// be enforced is kept, every property is required and no other is allowed. Pure functions; nothing
// recurses.

#pragma once

#include <string>

#include "base/json.h"

namespace sluice::codec {

// Compact JSON text. `schema` has passed CheckStrictSchema (dialect/schema_check.h).
std::string NormalizeStrictSchema(const JsonValue& schema);

// Of a strict tool that named no parameters.
std::string EmptyStrictSchema();

}  // namespace sluice::codec
