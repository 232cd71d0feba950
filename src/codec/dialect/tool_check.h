// Tools that a client offers: names, parameter schemas, choices (spec recipe.md §6.2, §7.1). Pure
// functions.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec {

// `path`: where the name stands, "tools[0].function.name".
Status CheckToolName(std::string_view path, std::string_view name);

// A JSON schema of an object, or absent.
struct ToolSchema {
  std::string_view tool;
  const JsonValue& parameters;
  bool is_strict;
  bool may_lack_type;  // an absent `type` is object
};
Status CheckToolSchema(const ToolSchema& schema);

// JSON text of checked parameters, empty if absent; a missing type is written out, so that {} says
// explicitly that there are no properties.
std::string ToolSchemaText(const JsonValue& parameters);

// "none", "auto" or "required" as a string; false: it is something else.
bool ReadChoiceMode(const JsonValue& value, ToolChoice& mode);

// A call is asked for where no tools are: it cannot be met, and is listed as ignored. After the
// request's tools are known.
void ListUnmetChoice(ToolChoice asked, DecodedRequest& request);

// A choice that names a tool nobody offered.
Status UnknownToolChoice(std::string_view name);

// All tools or none are strict, and beside strict tools there is no response format.
Status CheckStrictMix(const std::vector<Tool>& tools, bool has_response_format);

}  // namespace sluice::codec
