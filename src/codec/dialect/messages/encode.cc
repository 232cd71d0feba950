// hop 10 of 10: after Commit, before Write.
//
// OnEvent writes one delta. Blocks follow one another: at most one is open, and what comes for
// another one closes it.

#include "codec/dialect/messages/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/json_writer.h"
#include "codec/dialect/error_body.h"

namespace sluice::codec::messages {
namespace {

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

const char* NameOf(codec::Finish finish) {
  switch (finish) {
    case codec::Finish::kStop:
      return "end_turn";
    case codec::Finish::kStopString:
      return "stop_sequence";
    case codec::Finish::kLength:
      return "max_tokens";
    case codec::Finish::kToolCalls:
      return "tool_use";
    case codec::Finish::kContentFilter:
      return "refusal";
  }
  return "end_turn";
}

// Members "stop_reason" and "stop_sequence".
std::string EndingOf(codec::Finish finish, std::string_view stop) {
  std::string ending = fmt::format("\"stop_reason\":\"{}\",\"stop_sequence\":", NameOf(finish));
  if (finish != codec::Finish::kStopString) return ending + "null";
  ending += '"';
  AppendJsonEscaped(ending, stop);
  return ending + '"';
}

// spec recipe.md §8.5: cached tokens are not part of input_tokens.
void AppendUsage(const wire::Usage& usage, std::string& out) {
  JsonWriter w(out);
  w.Object();
  w.Key("input_tokens").Int(std::max(0, usage.n_prompt - usage.n_cached));
  w.Key("cache_creation_input_tokens").Int(0);
  w.Key("cache_read_input_tokens").Int(usage.n_cached);
  w.Key("output_tokens").Int(usage.n_completion);
  w.Key("service_tier").String("standard");
  w.EndObject();
}

// The arguments as an object; what is cut or no object is {}, never half of what was meant.
std::string InputOf(const std::string& arguments) {
  Result<Json> json = Json::Parse(arguments);
  return json && json->root().is_object() ? json->root().ToText() : "{}";
}

}  // namespace

Encoder::Encoder(const AnswerSpec& spec, const AnswerIdentity& identity)
    : spec_(spec), id_("msg_" + identity.id) {}

void Encoder::Begin(int32_t, const wire::Usage& usage, std::string& out) {
  Start(usage, out);
  // With thinking on its block is opened at once, also if it stays empty.
  if (StartsInReasoning(spec_.start)) Open(BlockKind::kThinking, nullptr, out);
}

void Encoder::OnEvent(int32_t, const OutputEvent& event, std::string& out) {
  switch (event.kind) {
    case OutputKind::kReasoning:
    case OutputKind::kContent: {
      const BlockKind kind =
          event.kind == OutputKind::kReasoning ? BlockKind::kThinking : BlockKind::kText;
      if (open_ != kind) Open(kind, nullptr, out);
      Append(event.text, out);
      break;
    }
    case OutputKind::kCall:
      Open(BlockKind::kToolUse, &event, out);
      break;
    case OutputKind::kArguments:
      Append(event.text, out);
      break;
    case OutputKind::kCallEnd:
      call_has_ended_ = true;
      Close(out);
      break;
  }
}

void Encoder::End(int32_t, const ChoiceEnd& end, const wire::Usage* usage, std::string& out) {
  Close(out);
  // A call that was cut must not look like one to be made; to the reference it does.
  const bool looks_whole = end.finish == codec::Finish::kToolCalls;
  const bool is_cut = spec_.profile.repair_calls && looks_whole && has_cut_call_;
  ending_ = EndingOf(is_cut ? codec::Finish::kLength : end.finish, end.stop);
  if (!spec_.stream) return;
  out += "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{";
  out += ending_;
  out += "},\"usage\":";
  AppendUsage(usage == nullptr ? wire::Usage{} : *usage, out);
  out += "}\n\n";
}

void Encoder::Finish(const wire::Usage& usage, std::string& out) {
  if (spec_.stream) {
    out += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    return;
  }
  out.reserve(out.size() + static_cast<size_t>(held_bytes_));  // escapes and braces come on top
  out +=
      fmt::format("{{\"id\":\"{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"", id_);
  AppendJsonEscaped(out, spec_.model);
  out += "\",\"content\":[";
  AppendBlocks(out);
  out += "],";
  out += ending_;
  out += ",\"usage\":";
  AppendUsage(usage, out);
  out += '}';
}

// message_start, once. Nothing may stand before it, not even a ping.
void Encoder::Start(const wire::Usage& usage, std::string& out) {
  if (has_started_ || !spec_.stream) return;
  has_started_ = true;
  out += fmt::format(
      "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"{}\","
      "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"",
      id_);
  AppendJsonEscaped(out, spec_.model);
  out += "\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":";
  AppendUsage({.n_prompt = usage.n_prompt, .n_cached = usage.n_cached}, out);
  out += "}}\n\n";
}

// `call`: the event of a kToolUse.
void Encoder::Open(BlockKind kind, const OutputEvent* call, std::string& out) {
  Close(out);
  open_ = kind;
  call_has_ended_ = false;
  const int32_t index = n_blocks_++;
  if (!spec_.stream) {
    Block& block = blocks_.emplace_back();
    block.kind = kind;
    if (call == nullptr) return;
    block.id = std::string(call->call_id);
    block.name = std::string(call->text);
    held_bytes_ += std::ssize(block.id) + std::ssize(block.name);
    return;
  }
  out += fmt::format(
      "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{},"
      "\"content_block\":",
      index);
  std::string_view delta;
  if (kind == BlockKind::kThinking) {
    out += R"({"type":"thinking","thinking":"","signature":""})";
    delta = R"("type":"thinking_delta","thinking":")";
  } else if (kind == BlockKind::kText) {
    out += R"({"type":"text","text":""})";
    delta = R"("type":"text_delta","text":")";
  } else {
    JsonWriter w(out);
    w.Object().Key("type").String("tool_use").Key("id").String(call->call_id);
    w.Key("name").String(call->text).Key("input").Raw("{}").EndObject();
    delta = R"("type":"input_json_delta","partial_json":")";
  }
  out += "}\n\n";
  delta_head_ = fmt::format(
      "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{},"
      "\"delta\":{{{}",
      index, delta);
  if (index == 0) out += kPing;
}

// To the open block.
void Encoder::Append(std::string_view text, std::string& out) {
  if (text.empty()) return;
  if (!spec_.stream) {
    blocks_.back().text += text;
    held_bytes_ += std::ssize(text);
    return;
  }
  out += delta_head_;
  AppendJsonEscaped(out, text);
  out += "\"}}\n\n";
}

// The open block, if there is one.
void Encoder::Close(std::string& out) {
  if (!open_) return;
  if (*open_ == BlockKind::kToolUse && !call_has_ended_) has_cut_call_ = true;
  if (spec_.stream) {
    const int32_t index = n_blocks_ - 1;
    if (*open_ == BlockKind::kThinking) {
      // Opaque to clients, which send it back as it is; it carries nothing.
      out += fmt::format(
          "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{},"
          "\"delta\":{{\"type\":\"signature_delta\",\"signature\":\"{}\"}}}}\n\n",
          index, id_);
    }
    out += fmt::format(
        "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{}}}\n\n",
        index);
  }
  open_.reset();
}

void Encoder::AppendBlocks(std::string& out) const {
  JsonWriter w(out);
  for (const Block& block : blocks_) {
    w.Object();
    switch (block.kind) {
      case BlockKind::kThinking:
        w.Key("type").String("thinking").Key("thinking").String(block.text);
        w.Key("signature").String(id_);
        break;
      case BlockKind::kText:
        w.Key("type").String("text").Key("text").String(block.text);
        break;
      case BlockKind::kToolUse:
        w.Key("type").String("tool_use").Key("id").String(block.id);
        w.Key("name").String(block.name).Key("input").Raw(InputOf(block.text));
        break;
    }
    w.EndObject();
  }
}

void Encoder::Heartbeat(std::string& out) {
  if (!spec_.stream) {
    out += '\n';  // white space in front of a JSON body is legal
    return;
  }
  Start({.n_prompt = spec_.n_prompt}, out);
  out += kPing;
}

void Encoder::Fail(const Status& status, std::string_view request_id, std::string& out) const {
  // The SDKs raise at the event and read no further. No message_stop follows: a client that does
  // not know the event must see a stream cut short, not a complete answer.
  if (spec_.stream) out += "event: error\ndata: ";
  out += ErrorBody(status, request_id);
  if (spec_.stream) out += "\n\n";
}

std::string ErrorBody(const Status& status, std::string_view request_id) {
  std::string body;
  JsonWriter w(body);
  w.Object().Key("type").String("error").Key("error").Object();
  w.Key("type").String(RowOf(status.code()).anthropic_type);
  w.Key("message").String(ShownMessage(status, request_id));
  // Not of this API; its clients skip what they do not know.
  if (status.has_own_api_code()) w.Key("code").String(status.api_code());
  w.EndObject().Key("request_id").String(request_id).EndObject();
  return body;
}

}  // namespace sluice::codec::messages
