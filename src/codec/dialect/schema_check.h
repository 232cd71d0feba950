// Structural checks of a client's JSON schemas: is it a JSON schema at all, and does it keep the
// rules of strict mode (spec recipe.md §6.2). Whether it can be enforced is the grammar's question.
// Pure functions; nothing recurses.

#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace sluice::codec {

// A sentence part that says what is wrong: "`type` must be …".
Status CheckJsonSchema(const JsonValue& schema);

// `schema` passed CheckJsonSchema. An empty object is allowed at the top if `top_may_be_empty`.
struct StrictParams {
  const char* what;  // "function parameters schema", "json schema"
  bool top_may_be_empty;
};
Status CheckStrictSchema(const JsonValue& schema, const StrictParams& params);

}  // namespace sluice::codec
