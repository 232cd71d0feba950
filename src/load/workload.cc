#include "load/workload.h"

#include <fmt/format.h>

#include <array>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/rng.h"

namespace sluice::load {
namespace {

// Words that are one token with a space in front in every large vocabulary of English.
constexpr std::array<std::string_view, 64> kWords = {
    "time",     "year",    "people",   "way",    "day",        "man",    "thing",   "woman",
    "life",     "child",   "world",    "school", "state",      "family", "student", "group",
    "country",  "problem", "hand",     "part",   "place",      "case",   "week",    "company",
    "system",   "program", "question", "work",   "government", "number", "night",   "point",
    "home",     "water",   "room",     "mother", "area",       "money",  "story",   "fact",
    "month",    "lot",     "right",    "study",  "book",       "eye",    "job",     "word",
    "business", "issue",   "side",     "kind",   "head",       "house",  "service", "friend",
    "father",   "power",   "hour",     "game",   "line",       "end",    "member",  "law"};

// Streams of random numbers: 0 draws arrivals.
constexpr uint64_t kPrefixStream = 1;
constexpr uint64_t kPromptStream = 2;

void AppendWords(const RngKey& first, int64_t n, std::string& text) {
  for (int64_t i = 0; i < n; ++i) {
    RngKey key = first;
    key.position += static_cast<uint64_t>(i);
    if (!text.empty()) text += ' ';
    text += kWords[RandomBits(key) % kWords.size()];
  }
}

// What goes around the messages of a request.
struct Frame {
  std::string_view model;
  std::string_view system;
  std::string_view tools;
  int64_t n_max = 0;
  int64_t n_min = 0;
};

// Messages must be told a limit.
constexpr int64_t kMessagesMaxTokens = 32'000;

std::string BodyOf(Api api, const Frame& frame, std::string_view messages) {
  std::string body;
  JsonWriter w(body);
  w.Object().Key("model").String(frame.model).Key("stream").Bool(true);
  if (!frame.tools.empty()) w.Key("tools").Raw(frame.tools);
  std::string system;
  switch (api) {
    case Api::kChat:
      w.Key("stream_options").Raw(R"({"include_usage":true})");
      if (frame.n_max > 0) w.Key("max_tokens").Int(frame.n_max);
      if (frame.n_min > 0) w.Key("min_tokens").Int(frame.n_min);
      if (!frame.system.empty()) {
        JsonWriter s(system);
        s.Object().Key("role").String("system").Key("content").String(frame.system).EndObject();
        system += ',';
      }
      w.Key("messages").Raw(fmt::format("[{}{}]", system, messages));
      break;
    case Api::kMessages:
      w.Key("max_tokens").Int(frame.n_max > 0 ? frame.n_max : kMessagesMaxTokens);
      if (!frame.system.empty()) w.Key("system").String(frame.system);
      w.Key("messages").Raw(fmt::format("[{}]", messages));
      break;
    case Api::kResponses:
      if (frame.n_max > 0) w.Key("max_output_tokens").Int(frame.n_max);
      w.Key("store").Bool(false);
      if (!frame.system.empty()) w.Key("instructions").String(frame.system);
      w.Key("input").Raw(fmt::format("[{}]", messages));
      break;
  }
  w.EndObject();
  return body;
}

// Appends one more element to the inside of a list.
JsonWriter Element(std::string& list) {
  if (!list.empty()) list += ',';
  return JsonWriter(list);
}

void AppendUser(std::string_view text, std::string& messages) {
  JsonWriter w = Element(messages);
  w.Object().Key("role").String("user").Key("content").String(text).EndObject();
}

void AppendChatAnswer(const AnswerTurn& turn, std::string& messages) {
  JsonWriter w = Element(messages);
  w.Object().Key("role").String("assistant").Key("content").String(turn.text);
  if (!turn.reasoning.empty()) w.Key("reasoning_content").String(turn.reasoning);
  if (!turn.calls.empty()) {
    w.Key("tool_calls").Array();
    for (const AnswerTurn::Call& call : turn.calls) {
      w.Object().Key("id").String(call.id).Key("type").String("function").Key("function").Object();
      w.Key("name").String(call.name).Key("arguments").String(call.arguments);
      w.EndObject().EndObject();
    }
    w.EndArray();
  }
  w.EndObject();
}

void AppendMessagesAnswer(const AnswerTurn& turn, std::string& messages) {
  JsonWriter w = Element(messages);
  w.Object().Key("role").String("assistant").Key("content").Array();
  if (!turn.reasoning.empty()) {
    w.Object().Key("type").String("thinking").Key("thinking").String(turn.reasoning);
    w.Key("signature").String(turn.signature).EndObject();
  }
  if (!turn.text.empty()) {
    w.Object().Key("type").String("text").Key("text").String(turn.text).EndObject();
  }
  for (const AnswerTurn::Call& call : turn.calls) {
    w.Object().Key("type").String("tool_use").Key("id").String(call.id);
    w.Key("name").String(call.name).Key("input");
    const Result<Json> input = Json::Parse(call.arguments);
    w.Raw(input && input->root().is_object() ? call.arguments : "{}").EndObject();
  }
  w.EndArray().EndObject();
}

void AppendAnswer(Api api, const AnswerTurn& turn, std::string& messages) {
  const bool is_empty = turn.text.empty() && turn.reasoning.empty() && turn.calls.empty();
  if (api == Api::kChat) {
    AppendChatAnswer(turn, messages);
  } else if (api == Api::kMessages && !is_empty) {
    AppendMessagesAnswer(turn, messages);
  }
  for (const std::string& item : turn.items) Element(messages).Raw(item);
}

// What the calls of an answer are answered with where the trace goes on with something else: models
// call when they like, and a server may refuse a history with calls that have no result.
constexpr std::string_view kNotRun = "not run";

// The same result for every call, and what the user says behind it.
void AppendMessagesResults(const AnswerTurn& turn,
                           std::string_view result,
                           std::string_view said,
                           std::string& messages) {
  JsonWriter w = Element(messages);
  w.Object().Key("role").String("user").Key("content").Array();
  for (const AnswerTurn::Call& call : turn.calls) {
    w.Object().Key("type").String("tool_result").Key("tool_use_id").String(call.id);
    w.Key("content").String(result).EndObject();
  }
  if (!said.empty()) w.Object().Key("type").String("text").Key("text").String(said).EndObject();
  w.EndArray().EndObject();
}

void AppendTurn(Api api, const AnswerTurn& last, const TraceTurn& now, std::string& messages) {
  if (last.calls.empty()) return AppendUser(now.text, messages);
  const std::string_view result = now.is_tool_result ? std::string_view(now.text) : kNotRun;
  const std::string_view said = now.is_tool_result ? std::string_view() : now.text;
  if (api == Api::kMessages) return AppendMessagesResults(last, result, said, messages);
  for (const AnswerTurn::Call& call : last.calls) {
    JsonWriter w = Element(messages);
    if (api == Api::kChat) {
      w.Object().Key("role").String("tool").Key("tool_call_id").String(call.id);
      w.Key("content").String(result).EndObject();
    } else {
      w.Object().Key("type").String("function_call_output").Key("call_id").String(call.id);
      w.Key("output").String(result).EndObject();
    }
  }
  if (!said.empty()) AppendUser(said, messages);
}

}  // namespace

Result<Workload> Workload::Open(FileSystem& files, const LoadOptions& options) {
  Workload workload(options);
  const std::string& path = options.trace.empty() ? options.requests_file : options.trace;
  if (path.empty()) return workload;
  SLUICE_TRY(const std::string text, files.ReadWhole(path, limits::kMaxToolInputBytes));
  Status status;
  if (!options.trace.empty()) {
    Result<std::vector<TraceConversation>> read = ParseTrace(text);
    status = read.status();
    if (read) workload.conversations_ = std::move(*read);
  } else {
    Result<std::vector<FileRequest>> read = ParseRequests(text, options.api);
    status = read.status();
    if (read) workload.requests_ = std::move(*read);
  }
  if (!status.ok()) return status.AddContext(path);
  return workload;
}

int32_t Workload::n_turns(int64_t number) const {
  if (conversations_.empty()) return 1;
  const auto line = static_cast<size_t>(number) % conversations_.size();
  return static_cast<int32_t>(conversations_[line].turns.size());
}

Duration Workload::think(int64_t number, int32_t turn) const {
  if (conversations_.empty()) return {};
  const auto line = static_cast<size_t>(number) % conversations_.size();
  return conversations_[line].turns[static_cast<size_t>(turn)].think;
}

Result<Workload::Request> Workload::Next(int64_t number, int32_t turn, History& history) const {
  if (!requests_.empty()) {
    const FileRequest& request = requests_[static_cast<size_t>(number) % requests_.size()];
    return Request{.body = request.body, .n_max = request.n_max};
  }
  if (conversations_.empty()) return Synthetic(number);
  const auto line = static_cast<size_t>(number) % conversations_.size();
  const TraceConversation& conversation = conversations_[line];
  const TraceTurn& now = conversation.turns[static_cast<size_t>(turn)];
  if (turn > 0) AppendAnswer(options_.api, history.last, history.messages);
  AppendTurn(options_.api, history.last, now, history.messages);
  const Frame frame{.model = options_.model,
                    .system = conversation.system,
                    .tools = conversation.tools,
                    .n_max = now.n_max};
  Request request{.body = BodyOf(options_.api, frame, history.messages),
                  .n_max = now.n_max,
                  .keeps_answer = turn + 1 < n_turns(number)};
  if (static_cast<int64_t>(request.body.size()) > limits::kMaxJsonBytes) {
    return Status(ErrorCode::kTooLarge, fmt::format("a conversation exceeds {} bytes in turn {}",
                                                    limits::kMaxJsonBytes, turn + 1));
  }
  return request;
}

Workload::Request Workload::Synthetic(int64_t number) const {
  const auto seed = static_cast<uint64_t>(options_.seed);
  const auto n_shared = static_cast<int64_t>(options_.shared_prefix * options_.input_tokens + 0.5);
  std::string prompt;
  AppendWords({.seed = seed, .stream = kPrefixStream}, n_shared, prompt);
  AppendWords({.seed = seed,
               .position = static_cast<uint64_t>(number) * limits::kMaxLoadInputTokens,
               .stream = kPromptStream},
              options_.input_tokens - n_shared, prompt);
  std::string messages;
  AppendUser(prompt, messages);
  const Frame frame{
      .model = options_.model, .n_max = options_.output_tokens, .n_min = options_.output_tokens};
  return {.body = BodyOf(options_.api, frame, messages), .n_max = options_.output_tokens};
}

}  // namespace sluice::load
