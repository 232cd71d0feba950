// The codec's door for requests: HTTP body in, GenerateRequest out. Functions without I/O or
// clock; they run on the prep pool. Errors are what the client gets, with the field they name.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "codec/constraint.h"
#include "codec/conversation.h"
#include "codec/format.h"
#include "codec/profile.h"
#include "wire/request.h"

namespace sluice::codec {

class ScriptBook;
namespace responses {
class ResponseStore;
}

// What is decided outside: codec has no clock and no random numbers.
struct AnswerIdentity {
  std::string id;  // "chatcmpl-..." is made from it
  WallTime created;
  std::string fingerprint;  // system_fingerprint
  uint64_t entropy = 0;     // call ids are made from it
};

// The model as clients see it.
struct ModelCard {
  std::string name;                  // "deepseek-flash"
  std::vector<std::string> aliases;  // other accepted names, compared exactly
  // Likewise, but not listed: of another model, which clients may be set up for.
  std::vector<std::string> other_names;
  std::string owner = "deepseek-ai";  // who made it
  int32_t n_context = 1'048'576;      // tokens
  int32_t n_output_max =
      393'216;  // tokens, upper bound of every output limit; may exceed the context
  bool reads_images = false;
};

struct PrepareContext {
  const ModelCard& model;
  Format format;                 // how the model reads and writes
  ScriptBook* script = nullptr;  // --script: answers come from it
  bool strict = false;           // unknown request fields are refused
  bool default_thinking = true;
  Profile profile;
  responses::ResponseStore* responses = nullptr;  // what requests may refer to; null: nothing
  TurnMemory* turns = nullptr;  // where turns of the history are looked up and the answer is kept
  KeyId key;                    // whose request it is
  // The highest class that it may ask for, which it has unless it asks for less.
  wire::RequestClass request_class = wire::RequestClass::kDefault;
};

// An image of the prompt, whose one token stands for all of its own.
struct PromptImage {
  Image image;
  int32_t pos;  // of its token in the prompt
};

struct Prepared {
  AnswerSpec answer;
  Constraint constraint;
  std::vector<PromptImage> images;
  std::optional<int32_t> thinking_budget;   // tokens, after which the end of thinking is forced
  wire::GenerateRequest generate;           // id, tenant and deadline are left to the caller
  std::vector<std::string> ignored_fields;  // for a header: unknown, or not enforced by this build
  // Assistant turns of the history, and those of them that stand there as they were sampled.
  int32_t n_history_turns = 0;
  int32_t n_spliced_turns = 0;
  // For a header: assistant turns that came back without the reasoning they had. The prompt has
  // none for them, so it is not the one that the model's own turns left in the cache.
  int32_t n_missing_reasoning = 0;
};

enum class Api : uint8_t { kChat, kMessages, kCompletions, kResponses };

// Why a prompt does not fit.
struct Overflow {
  int64_t n_prompt;   // tokens
  int64_t n_asked;    // tokens; 0: no limit was given
  int64_t n_context;  // tokens
};
std::string OverflowText(const Overflow& overflow);

// One API surface.
struct Dialect {
  Api api;
  const char* name;                    // "chat": script conditions, metrics labels
  std::span<const char* const> paths;  // POST
  Result<DecodedRequest> (*decode)(std::string_view body, const PrepareContext& context);
  std::string (*error_body)(const Status& status, std::string_view request_id);  // JSON text
  std::string (*overflow_text)(const Overflow& overflow) = &OverflowText;
  int32_t overloaded_status = 503;  // HTTP
};
std::span<const Dialect> Dialects();
const Dialect& DialectOf(Api api);

// The status an error has on this API.
int32_t HttpStatusOf(const Dialect& dialect, ErrorCode code);

// hop 2: Decode, Render, choose the script line. First failure in the order of spec recipe.md §6.1.
Result<Prepared> Prepare(const Dialect& dialect,
                         std::string_view body,
                         const PrepareContext& context);

}  // namespace sluice::codec
