// Conversation: what a request means, whatever API it came through. N dialects decode into it, M
// model formats render it; neither knows the other. Plain data.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "codec/profile.h"
#include "wire/request.h"

namespace sluice::codec {

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool, kLatestReminder };

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the client sent it; usually JSON, not checked
};

enum class ImageDetail : uint8_t { kAuto, kLow, kHigh, kOriginal };

// An image a message shows. Its pixels are fetched and decoded behind the codec.
struct Image {
  size_t offset = 0;    // bytes of the message's text before it
  bool is_url = false;  // else a data URL
  std::string source;
  ImageDetail detail = ImageDetail::kHigh;
  std::string path;  // where it stands in the request, for errors
};

enum class ToolKind : uint8_t {
  kFunction,
  kCustom,  // its one argument `input` is free text
  kSearch,  // Responses `tool_search`
};

struct Tool {
  std::string name;  // as the model reads it: for a namespaced one `ns::name`
  std::optional<std::string> description;
  std::string parameters;  // JSON schema text; empty: no arguments
  std::optional<bool> strict;
  bool is_deferred = false;  // known, but not shown in the tools block
  ToolKind kind = ToolKind::kFunction;
  std::string name_space;  // Responses: the namespace and the name within it; else empty
  std::string bare_name;
};

struct Message {
  Role role = Role::kUser;
  std::string text;                      // text parts joined with two line feeds
  std::vector<Image> images;             // by offset; not in assistant messages
  std::vector<Tool> tools;               // system only: tools shown from here on
  std::optional<std::string> reasoning;  // assistant only
  std::vector<ToolCall> calls;           // assistant only
  std::string tool_call_id;              // tool only
  bool is_prefix = false;                // assistant, last message: the answer continues it
  bool is_developer = false;  // kSystem written as `developer`: the newest word of a user's side
  bool continues = false;     // the client wrote it in one message with the one before
};

// A prompt that is text or tokens already: nothing is put around it (Completions).
struct RawPrompt {
  std::string text;
  std::vector<TokenId> ids;           // instead of `text`, taken as they are
  std::optional<std::string> suffix;  // fill in the middle (spec recipe.md §12)
};

enum class ToolChoice : uint8_t { kNone, kAuto, kRequired, kNamed };
constexpr bool ForcesCall(ToolChoice choice) {
  return choice == ToolChoice::kRequired || choice == ToolChoice::kNamed;
}

enum class ResponseFormat : uint8_t { kText, kJsonObject, kJsonSchema, kRegex };

struct Conversation {
  std::vector<Message> messages;
  std::optional<RawPrompt> raw;  // instead of messages; then no thinking, tools or format
  std::vector<Tool> tools;       // offered to the model: empty when the choice is none
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;  // kNamed
  bool parallel_tool_calls = true;
  bool thinking = true;
  int32_t effort = 75;  // 1-100 (spec recipe.md §3.6)
  ResponseFormat response_format = ResponseFormat::kText;
  std::string response_schema;      // JSON schema or regex text
  bool response_is_strict = false;  // kJsonSchema: the schema is one of strict mode
};

// Where the model's output begins (spec recipe.md §8.2): a new text drops its leading line feeds,
// one that continues a prefix keeps them.
enum class OutputStart : uint8_t { kReasoning, kReasoningContinued, kContent, kContentContinued };
inline bool StartsInReasoning(OutputStart start) {
  return start == OutputStart::kReasoning || start == OutputStart::kReasoningContinued;
}

namespace responses {
class ResponseStore;
}

// Responses: where an answer is kept for requests that refer to it by id.
struct KeepParams {
  responses::ResponseStore* store = nullptr;  // null: it is not kept
  KeyId key;                                  // whose it is
  std::string input;       // JSON array: the items it answers, its history included
  bool was_asked = false;  // the client asked for it and wants to hear whether it was
};

using Digest = std::array<std::byte, 32>;  // SHA-256

// Where a turn of the assistant begins: in the prompts of this key that have these tokens up to and
// including what tells that it is one, such as `<｜Assistant｜>`.
struct TurnPlace {
  KeyId key;
  Digest prefix = {};  // the format's, of the tokens
};

class TurnMemory;

// Where the answer begins, so that its tokens can be kept for prompts that hold it.
struct TurnStart {
  TurnMemory* memory = nullptr;  // null: they are not kept
  TurnPlace place;
  std::vector<TokenId> opening;  // what the prompt has of it already
};

// What is told of the tokens of the prompt.
struct PromptScores {
  std::vector<TokenId> prompt;   // empty: nothing
  int32_t n_ours = 0;            // of them stand in front of what the client wrote
  bool in_echo = false;          // Completions: `echo` with `logprobs`
  std::optional<int32_t> n_top;  // `prompt_logprobs`: alternatives in a list of its own
};

// What the client wants of the answer besides tokens.
struct AnswerSpec {
  std::string model;  // as asked; echoed in the body
  bool thinking = true;
  OutputStart start = OutputStart::kReasoning;
  bool stream = false;
  bool include_usage = false;   // a usage chunk at the end of the stream
  bool tells_progress = false;  // of the prompt, in chunks of the stream
  int32_t n_choices = 1;        // 1-16
  int32_t n_prompt = 0;  // tokens of the prompt; the usage until the service has told its own
  bool logprobs = false;
  int32_t n_top_logprobs = 0;
  std::vector<std::string> stops;    // <= 16, none empty; apply to visible content only
  std::vector<Tool> tools;           // the model may call, deferred ones included
  bool parses_calls = false;         // markup of calls is read as calls; else it is removed
  bool starts_in_calls = false;      // a forced choice: the prompt has opened the calls block
  std::string calls_opening;         // with what, as Format::CallsOpening tells; else empty
  bool keeps_broken_values = false;  // an argument that is no JSON though it says so is passed on
  bool is_json = false;              // json_object: fences and text around the JSON are filler
  // The `service_tier` told; empty: it was not asked for.
  std::string_view service_tier;
  std::string echo;  // the dialect's own: what its answer repeats of the request
  Profile profile;
  PromptScores prompt_scores;
  KeepParams keep;
  TurnStart turn;
};

// A request as one dialect decodes it; all limits checked.
struct DecodedRequest {
  Conversation conversation;
  AnswerSpec answer;
  wire::SamplingParams sampling;
  std::vector<TokenId> stop_ids;            // besides the model's own end token
  std::optional<int32_t> n_max_asked;       // tokens; the default depends on thinking and context
  std::optional<int32_t> thinking_budget;   // tokens, after which the end of thinking is forced
  std::vector<std::string> ignored_fields;  // unknown names, bounded, fit for a header
  // What `service_tier` came to; absent: it was not asked for, and the key's own counts.
  std::optional<wire::RequestClass> request_class;
  std::string user;  // affinity and metering only
};

}  // namespace sluice::codec
