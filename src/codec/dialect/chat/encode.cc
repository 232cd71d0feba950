// hop 10 of 10: after Commit, before Write.
//
// OnEvent writes one delta. It is the hot path of the server: what is the same in every chunk of a
// choice is rendered once, and an event costs three appends and the escaping of its text.

#include "codec/dialect/chat/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "codec/dialect/error_body.h"
#include "codec/dialect/logprobs.h"
#include "codec/dialect/openai_usage.h"

namespace sluice::codec::chat {
namespace {

constexpr size_t Index(OutputKind kind) { return static_cast<size_t>(kind); }

const char* NameOf(codec::Finish finish) {
  switch (finish) {
    case codec::Finish::kStop:
    case codec::Finish::kStopString:
      return "stop";
    case codec::Finish::kLength:
      return "length";
    case codec::Finish::kToolCalls:
      return "tool_calls";
    case codec::Finish::kContentFilter:
      return "content_filter";
  }
  return "stop";
}

// Appends {"content": [...], "reasoning_content": [...]} of two lists without brackets; an empty
// one is null. The second member exists only with reasoning.
void AppendLogprobsObject(std::string_view content,
                          std::string_view reasoning,
                          bool with_reasoning,
                          std::string& out) {
  auto append_list = [&out](std::string_view list) {
    if (list.empty()) {
      out += "null";
      return;
    }
    out += '[';
    out += list;
    out += ']';
  };
  out += "{\"content\":";
  append_list(content);
  if (with_reasoning) {
    out += ",\"reasoning_content\":";
    append_list(reasoning);
  }
  out += '}';
}

}  // namespace

Encoder::Encoder(const AnswerSpec& spec, const AnswerIdentity& identity)
    : spec_(spec), identity_(identity), starts_in_reasoning_(StartsInReasoning(spec.start)) {
  choices_.resize(static_cast<size_t>(spec.n_choices));
  if (!spec.stream) return;
  // With thinking each delta names both fields, the other one null.
  delta_end_[Index(OutputKind::kReasoning)] = "\"}";
  delta_end_[Index(OutputKind::kContent)] =
      spec.thinking ? '"' + ReasoningMember("null") + '}' : "\"}";
  for (size_t kind = 0; kind < 2; ++kind) AppendTail(delta_end_[kind], "null", "null", tail_[kind]);
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    choice.start = fmt::format(
        "data: {},\"choices\":[{{\"index\":{},\"delta\":", Head("chat.completion.chunk"), i);
    choice.head[Index(OutputKind::kReasoning)] =
        choice.start + "{\"content\":null,\"reasoning_content\":\"";
    choice.head[Index(OutputKind::kContent)] = choice.start + "{\"content\":\"";
  }
}

void Encoder::OnEvent(int32_t choice, const OutputEvent& event, std::string& out) {
  Choice& c = choices_[static_cast<size_t>(choice)];
  if (event.kind != OutputKind::kReasoning && event.kind != OutputKind::kContent) {
    return OnCallEvent(c, event, out);
  }
  const size_t kind = Index(event.kind);
  if (!spec_.stream) {
    c.text[kind] += event.text;
    const size_t n_before = c.logprobs[kind].size();
    AppendLogprobs(event.logprobs, c.logprobs[kind]);
    held_bytes_ += static_cast<int64_t>(event.text.size() + c.logprobs[kind].size() - n_before);
    return;
  }
  out += c.head[kind];
  AppendJsonEscaped(out, event.text);
  const bool is_reasoning = event.kind == OutputKind::kReasoning;
  if (is_reasoning && spec_.profile.chat_reasoning_twice) {
    out += "\",\"reasoning\":\"";
    AppendJsonEscaped(out, event.text);
  }
  if (!spec_.logprobs) {
    out += tail_[kind];
    return;
  }
  logprobs_.clear();
  AppendLogprobs(event.logprobs, logprobs_);
  std::string object;
  AppendLogprobsObject(is_reasoning ? "" : logprobs_, is_reasoning ? logprobs_ : "", spec_.thinking,
                       object);
  AppendTail(delta_end_[kind], object, "null", out);
}

// Choices have the prompt in common, and the answer has one list.
void Encoder::OnPrompt(int32_t choice, const PromptPiece& piece, std::string&) {
  if (choice != 0 || !spec_.prompt_scores.n_top) return;
  const int64_t n_before = std::ssize(prompt_logprobs_);
  AppendPromptLogprobs(piece.tokens, *spec_.prompt_scores.n_top, prompt_logprobs_);
  held_bytes_ += std::ssize(prompt_logprobs_) - n_before;
}

// As llama.cpp's server writes it, so that its clients understand it.
void Encoder::OnProgress(const wire::PromptProgress& prompt, std::string& out) const {
  out += fmt::format(
      "data: {},\"choices\":[],\"prompt_progress\":{{\"total\":{},\"cache\":{},\"processed\":{}}}",
      Head("chat.completion.chunk"), spec_.n_prompt, prompt.n_cached, prompt.n_done);
  out += spec_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n";
}

// A call is one delta with its id and name, then one for each piece of its arguments. That it is
// complete is not said.
void Encoder::OnCallEvent(Choice& c, const OutputEvent& event, std::string& out) {
  if (!spec_.stream) return KeepCallEvent(c, event);
  if (event.kind == OutputKind::kCallEnd) return;
  out += c.start;
  out += "{\"tool_calls\":[{\"index\":";
  out += fmt::format_int(event.call).c_str();
  out += ',';
  if (event.kind == OutputKind::kCall) {
    out += "\"id\":\"";
    AppendJsonEscaped(out, event.call_id);
    out += "\",\"type\":\"function\",\"function\":{\"name\":\"";
    AppendJsonEscaped(out, event.text);
    out += "\",\"arguments\":\"";
  } else {
    out += "\"function\":{\"arguments\":\"";
    AppendJsonEscaped(out, event.text);
  }
  AppendTail("\"}}]}", "null", "null", out);
}

void Encoder::KeepCallEvent(Choice& c, const OutputEvent& event) {
  if (event.kind == OutputKind::kCallEnd) return;
  if (event.kind == OutputKind::kCall) {
    c.calls.push_back({.id = std::string(event.call_id), .name = std::string(event.text)});
  } else {
    c.calls.back().arguments += event.text;
  }
  held_bytes_ += static_cast<int64_t>(event.text.size() + event.call_id.size());
}

// Behind another member. `value`: a JSON value.
std::string Encoder::ReasoningMember(std::string_view value) const {
  std::string members = fmt::format(",\"reasoning_content\":{}", value);
  if (spec_.profile.chat_reasoning_twice) members += fmt::format(",\"reasoning\":{}", value);
  return members;
}

// From the end of the delta to the end of the frame. `logprobs` and `finish`: JSON values.
void Encoder::AppendTail(std::string_view delta_end,
                         std::string_view logprobs,
                         std::string_view finish,
                         std::string& out) const {
  out += delta_end;
  out += ",\"logprobs\":";
  out += logprobs;
  out += ",\"finish_reason\":";
  out += finish;
  out += spec_.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
}

void Encoder::Begin(int32_t choice, const wire::Usage&, std::string& out) {
  if (!spec_.stream) return;
  out += choices_[static_cast<size_t>(choice)].start;
  std::string delta = R"({"role":"assistant","content":)";
  delta += starts_in_reasoning_ ? "null" : R"("")";
  if (spec_.thinking) delta += ReasoningMember(starts_in_reasoning_ ? R"("")" : "null");
  AppendTail(delta + '}', "null", "null", out);
}

void Encoder::End(int32_t choice,
                  const ChoiceEnd& end,
                  const wire::Usage* usage,
                  std::string& out) {
  Choice& c = choices_[static_cast<size_t>(choice)];
  c.finish_reason = NameOf(end.finish);
  if (!spec_.stream) return;
  out += c.start;
  const std::string delta =
      R"({"content":"")" + (spec_.thinking ? ReasoningMember("null") : "") + '}';
  AppendTail(delta, "null", fmt::format("\"{}\"", c.finish_reason), out);
  if (usage == nullptr) return;
  const std::string_view frame_end = spec_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n";
  out.resize(out.size() - frame_end.size());
  out += ",\"usage\":";
  AppendOpenAiUsage(*usage, {.with_reasoning = spec_.thinking}, out);
  out += "}\n\n";
}

void Encoder::Finish(const wire::Usage& usage, std::string& out) {
  if (spec_.stream) {
    if (spec_.include_usage && spec_.profile.usage_chunk) {
      out += "data: " + Head("chat.completion.chunk") + ",\"choices\":[],\"usage\":";
      AppendOpenAiUsage(usage, {.with_reasoning = spec_.thinking}, out);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
    return;
  }
  out.reserve(out.size() + static_cast<size_t>(held_bytes_));  // escapes and braces come on top
  out += Head("chat.completion") + ",\"choices\":[";
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    AppendChoice(static_cast<int32_t>(i), out);
  }
  out += "],\"usage\":";
  AppendOpenAiUsage(usage, {.with_reasoning = spec_.thinking}, out);
  if (spec_.prompt_scores.n_top) {
    out += ",\"prompt_logprobs\":[";
    out += prompt_logprobs_;
    out += ']';
  }
  out += '}';
}

void Encoder::AppendChoice(int32_t index, std::string& out) const {
  const Choice& c = choices_[static_cast<size_t>(index)];
  const std::string& content = c.text[Index(OutputKind::kContent)];
  const std::string& reasoning = c.text[Index(OutputKind::kReasoning)];
  out += fmt::format("{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":\"", index);
  AppendJsonEscaped(out, content);
  out += '"';
  if (starts_in_reasoning_) {
    std::string value = "\"";
    AppendJsonEscaped(value, reasoning);
    out += ReasoningMember(value + '"');
  }
  if (!c.calls.empty()) AppendCalls(c.calls, out);
  out += "},\"logprobs\":";
  if (spec_.logprobs) {
    AppendLogprobsObject(c.logprobs[Index(OutputKind::kContent)],
                         c.logprobs[Index(OutputKind::kReasoning)], starts_in_reasoning_, out);
  } else {
    out += "null";
  }
  out += fmt::format(",\"finish_reason\":\"{}\"}}", c.finish_reason);
}

void Encoder::AppendCalls(const std::vector<Call>& calls, std::string& out) const {
  out += ",\"tool_calls\":";
  JsonWriter w(out);
  w.Array();
  for (size_t i = 0; i < calls.size(); ++i) {
    w.Object().Key("index").Int(static_cast<int64_t>(i)).Key("id").String(calls[i].id);
    w.Key("type").String("function").Key("function").Object();
    w.Key("name").String(calls[i].name).Key("arguments").String(calls[i].arguments);
    w.EndObject().EndObject();
  }
  w.EndArray();
}

// The open head of an object: everything that all chunks of a stream share.
std::string Encoder::Head(std::string_view object) const {
  std::string head;
  JsonWriter w(head);
  w.Object();
  w.Key("id").String("chatcmpl-" + identity_.id);
  w.Key("object").String(object);
  w.Key("created").Int(identity_.created.whole_seconds());
  w.Key("model").String(spec_.model);
  w.Key("system_fingerprint").String(identity_.fingerprint);
  if (!spec_.service_tier.empty()) w.Key("service_tier").String(spec_.service_tier);
  return head;
}

void Encoder::Heartbeat(std::string& out) const {
  // White space in front of a JSON body is legal; a comment line keeps an event stream alive.
  out += spec_.stream ? ": keep-alive\n\n" : "\n";
}

void Encoder::Fail(const Status& status, std::string_view request_id, std::string& out) const {
  // The official SDKs raise at the first object with an `error` key and read no further. There is
  // no finish_reason and no [DONE] behind it: a client that knows neither must see a broken answer,
  // not a complete one.
  if (spec_.stream) out += "data: ";
  out += OpenAiErrorBody(status, request_id);
  if (spec_.stream) out += "\n\n";
}

}  // namespace sluice::codec::chat
