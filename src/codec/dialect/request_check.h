// What several dialects check of a request as a whole. The texts are the reference's where clients
// match on them (spec recipe.md §7). Pure functions.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect.h"

namespace sluice::codec {

// Of a body that is JSON of another kind.
Status NoObject(const JsonValue& root);

// For the OpenAI APIs; names are compared exactly.
Status CheckModel(std::string_view asked, const PrepareContext& context);

// An absent number leaves `into` as it is. `range_text`: as the message shows it, "[0, 2]".
Status ReadRange(std::string_view name,
                 std::optional<double> asked,
                 std::pair<double, double> range,
                 std::string_view range_text,
                 double& into);
// The least double above 0, for ranges that are open there.
inline constexpr double kAboveZero = 5e-324;

// 0 is for those who want scores of the prompt and nothing else: `is_scored`.
Status CheckOutputLimit(std::string_view name,
                        const std::optional<uint64_t>& asked,
                        const ModelCard& model,
                        bool is_scored = false);

// `stream` and `stream_options` of Chat and Completions.
struct RawStream {
  std::optional<bool> on;
  bool has_options = false;
  std::optional<bool> include_usage;
};
Status ReadStreamOptions(const JsonValue& value, RawStream& stream);
Status TakeStream(const RawStream& stream, AnswerSpec& answer);

// At most kMaxUserIdBytes.
Status CheckUser(const std::optional<std::string_view>& user);

// Whether the text of some message holds `json`, in any case of letters.
bool ContainsJsonWord(const std::vector<Message>& messages);

// Whether every assistant turn behind the last user message brings the reasoning it must have had
// (spec recipe.md §7.1). `has_tools`: of the request.
bool HasItsReasoning(const std::vector<Message>& messages, bool has_tools);

// A field that this endpoint does not know: refused if `strict`, else listed in a form fit for a
// header, at most kMaxIgnoredFieldsListed.
Status TakeUnknownField(std::string_view name, bool strict, std::vector<std::string>& listed);

}  // namespace sluice::codec
