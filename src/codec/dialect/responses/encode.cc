// hop 10 of 10: after Commit, before Write.
//
// OnEvent writes one delta of the open item; an item is opened when its first text comes and closed
// when something else does.

#include "codec/dialect/responses/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/dialect/error_body.h"
#include "codec/dialect/logprobs.h"

namespace sluice::codec::responses {
namespace {

constexpr std::string_view kCommentary = "commentary";  // a call follows
constexpr std::string_view kFinalAnswer = "final_answer";

void WriteUsage(const wire::Usage* known, JsonWriter& w) {
  if (known == nullptr) {
    w.Null();
    return;
  }
  const wire::Usage& usage = *known;
  w.Object();
  w.Key("input_tokens").Int(usage.n_prompt);
  w.Key("input_tokens_details").Object().Key("cached_tokens").Int(usage.n_cached).EndObject();
  w.Key("output_tokens").Int(usage.n_completion);
  w.Key("output_tokens_details")
      .Object()
      .Key("reasoning_tokens")
      .Int(usage.n_reasoning)
      .EndObject();
  w.Key("total_tokens").Int(int64_t{usage.n_prompt} + usage.n_completion);
  w.EndObject();
}

std::string_view IncompleteReason(codec::Finish finish) {
  switch (finish) {
    case codec::Finish::kLength:
      return "max_output_tokens";
    case codec::Finish::kContentFilter:
      return "content_filter";
    case codec::Finish::kStop:
    case codec::Finish::kStopString:
    case codec::Finish::kToolCalls:
      break;
  }
  return {};
}

const char* DeltaTypeOf(OutputItemKind kind) {
  switch (kind) {
    case OutputItemKind::kReasoning:
      return "response.reasoning_text.delta";
    case OutputItemKind::kMessage:
      return "response.output_text.delta";
    case OutputItemKind::kCustomCall:
      return "response.custom_tool_call_input.delta";
    case OutputItemKind::kFunctionCall:
    case OutputItemKind::kSearchCall:
      break;
  }
  return "response.function_call_arguments.delta";
}

// A search has no deltas: its item comes when it is complete, and until then none is open.
bool IsAnnounced(OutputItemKind kind) { return kind != OutputItemKind::kSearchCall; }

bool HasContent(OutputItemKind kind) {
  return kind == OutputItemKind::kReasoning || kind == OutputItemKind::kMessage;
}

}  // namespace

Encoder::Encoder(const AnswerSpec& spec, const AnswerIdentity& identity)
    : spec_(spec), id_("resp_" + identity.id), created_s_(identity.created.whole_seconds()) {}

JsonWriter Encoder::BeginEvent(std::string_view type, std::string& out) {
  out += "event: ";
  out += type;
  out += "\ndata: ";
  JsonWriter w(out);
  w.Object();
  w.Key("type").String(type);
  w.Key("sequence_number").Int(n_events_++);
  return w;
}

void Encoder::EndEvent(JsonWriter& w, std::string& out) {
  w.EndObject();
  out += "\n\n";
}

void Encoder::EventOf(std::string_view type, const Outline& outline, std::string& out) {
  JsonWriter w = BeginEvent(type, out);
  w.Key("response").Raw(Whole(outline).ToText());
  EndEvent(w, out);
}

// The open item, still empty.
void Encoder::Announce(std::string& out) {
  if (!spec_.stream) return;
  JsonWriter w = BeginEvent("response.output_item.added", out);
  w.Key("output_index").Int(open_->index).Key("item");
  WriteNewItem(*open_, w);
  EndEvent(w, out);
}

// An event about the open item up to what is special to it.
JsonWriter Encoder::BeginItemEvent(std::string_view type, std::string& out) {
  JsonWriter w = BeginEvent(type, out);
  w.Key("item_id").String(open_->id).Key("output_index").Int(open_->index);
  if (HasContent(open_->kind)) w.Key("content_index").Int(0);
  return w;
}

void Encoder::Begin(int32_t, const wire::Usage&, std::string& out) {
  if (!spec_.stream || has_begun_) return;
  has_begun_ = true;
  const Outline outline{.status = "in_progress", .is_stored = spec_.keep.was_asked};
  EventOf("response.created", outline, out);
  EventOf("response.in_progress", outline, out);
}

void Encoder::OnEvent(int32_t, const OutputEvent& event, std::string& out) {
  switch (event.kind) {
    case OutputKind::kReasoning:
    case OutputKind::kContent:
      AddText(event, out);
      break;
    case OutputKind::kCall:
      OpenCall(event, out);
      break;
    case OutputKind::kArguments:
      AddArguments(event.text, out);
      break;
    case OutputKind::kCallEnd:
      Close({.status = "completed"}, out);
      break;
  }
}

void Encoder::Open(OutputItemKind kind) {
  OutputItem& item = open_.emplace();
  item.kind = kind;
  item.index = static_cast<int32_t>(done_.size());
  item.id = fmt::format("{}_{}_{}", IdPrefixOf(kind), id_, item.index);
  item.opaque = id_;
}

void Encoder::OpenCall(const OutputEvent& event, std::string& out) {
  Close({.status = "completed", .phase = kCommentary}, out);
  auto tool = std::ranges::find(spec_.tools, event.text, &Tool::name);
  const bool is_known = tool != spec_.tools.end();
  const ToolKind tool_kind = is_known ? tool->kind : ToolKind::kFunction;
  Open(tool_kind == ToolKind::kCustom   ? OutputItemKind::kCustomCall
       : tool_kind == ToolKind::kSearch ? OutputItemKind::kSearchCall
                                        : OutputItemKind::kFunctionCall);
  OutputItem& item = *open_;
  item.call_id = event.call_id;
  item.name = event.text;
  if (is_known && !tool->name_space.empty()) {
    item.name = tool->bare_name;
    item.name_space = tool->name_space;
  }
  free_text_ = FreeText();
  if (IsAnnounced(item.kind)) Announce(out);
}

void Encoder::AddText(const OutputEvent& event, std::string& out) {
  if (event.text.empty() && event.logprobs.empty()) return;
  const OutputItemKind kind =
      event.kind == OutputKind::kReasoning ? OutputItemKind::kReasoning : OutputItemKind::kMessage;
  if (open_ && open_->kind != kind) Close({.status = "completed", .phase = kFinalAnswer}, out);
  if (!open_) {
    Open(kind);
    Announce(out);
    WritePartEvent("response.content_part.added", /*is_new=*/true, out);
  }
  logprobs_.clear();
  if (kind == OutputItemKind::kMessage && spec_.logprobs) AppendLogprobs(event.logprobs, logprobs_);
  if (!logprobs_.empty()) {
    if (!open_->logprobs.empty()) open_->logprobs += ',';
    open_->logprobs += logprobs_;
  }
  open_->text += event.text;
  held_bytes_ += std::ssize(event.text) + std::ssize(logprobs_);
  WriteDelta(event.text, logprobs_, out);
}

void Encoder::AddArguments(std::string_view piece, std::string& out) {
  if (!open_ || HasContent(open_->kind)) return;
  const size_t n_before = open_->text.size();
  if (open_->kind == OutputItemKind::kCustomCall) {
    free_text_.Push(piece, open_->text);
  } else {
    open_->text += piece;
  }
  held_bytes_ += std::ssize(piece);
  const std::string_view text = std::string_view(open_->text).substr(n_before);
  if (!text.empty() && IsAnnounced(open_->kind)) WriteDelta(text, "", out);
}

void Encoder::WriteDelta(std::string_view text, std::string_view logprobs, std::string& out) {
  if (!spec_.stream) return;
  if (delta_head_.empty()) {
    const char* type = DeltaTypeOf(open_->kind);
    JsonWriter w(delta_head_);
    delta_head_ = fmt::format("event: {}\ndata: ", type);
    w.Object().Key("type").String(type);
    w.Key("item_id").String(open_->id).Key("output_index").Int(open_->index);
    if (HasContent(open_->kind)) w.Key("content_index").Int(0);
    delta_head_ += ",\"delta\":\"";
  }
  out += delta_head_;
  AppendJsonEscaped(out, text);
  if (open_->kind == OutputItemKind::kMessage) {
    out += "\",\"logprobs\":[";
    out += logprobs;
    out += "],\"sequence_number\":";
  } else {
    out += "\",\"sequence_number\":";
  }
  fmt::format_to(std::back_inserter(out), "{}}}\n\n", n_events_++);
}

void Encoder::WritePartEvent(std::string_view type, bool is_new, std::string& out) {
  if (!spec_.stream) return;
  JsonWriter w = BeginItemEvent(type, out);
  w.Key("part");
  is_new ? WriteEmptyPart(*open_, w) : WritePart(*open_, w);
  EndEvent(w, out);
}

// The events that repeat the whole text of the open item.
void Encoder::WriteTextEnd(std::string& out) {
  const OutputItem& item = *open_;
  switch (item.kind) {
    case OutputItemKind::kReasoning:
    case OutputItemKind::kMessage: {
      const bool is_message = item.kind == OutputItemKind::kMessage;
      JsonWriter w = BeginItemEvent(
          is_message ? "response.output_text.done" : "response.reasoning_text.done", out);
      w.Key("text").String(item.text);
      if (is_message) w.Key("logprobs").Raw("[" + item.logprobs + "]");
      EndEvent(w, out);
      WritePartEvent("response.content_part.done", /*is_new=*/false, out);
      break;
    }
    case OutputItemKind::kCustomCall: {
      JsonWriter w = BeginItemEvent("response.custom_tool_call_input.done", out);
      w.Key("input").String(item.text);
      EndEvent(w, out);
      break;
    }
    case OutputItemKind::kFunctionCall: {
      JsonWriter w = BeginItemEvent("response.function_call_arguments.done", out);
      w.Key("arguments").String(item.text);
      EndEvent(w, out);
      break;
    }
    case OutputItemKind::kSearchCall:
      break;
  }
}

void Encoder::Close(const ItemEnd& end, std::string& out) {
  if (!open_) return;
  if (open_->kind == OutputItemKind::kCustomCall) {
    const size_t n_before = open_->text.size();
    free_text_.End(open_->text);
    const std::string_view rest = std::string_view(open_->text).substr(n_before);
    if (!rest.empty()) WriteDelta(rest, "", out);
  }
  if (!IsAnnounced(open_->kind)) Announce(out);
  StoredItem& item = done_.emplace_back();
  item.id = open_->id;
  JsonWriter writer(item.text);
  WriteItem(*open_, end, writer);
  held_bytes_ += std::ssize(item.text) - std::ssize(open_->text) - std::ssize(open_->logprobs);
  if (spec_.stream) {
    WriteTextEnd(out);
    JsonWriter w = BeginEvent("response.output_item.done", out);
    w.Key("output_index").Int(open_->index).Key("item").Raw(item.text);
    EndEvent(w, out);
  }
  delta_head_.clear();
  open_.reset();
}

void Encoder::End(int32_t, const ChoiceEnd& end, const wire::Usage*, std::string& out) {
  finish_ = end.finish;
  const bool is_whole = IncompleteReason(finish_).empty();
  Close({.status = is_whole ? "completed" : "incomplete", .phase = kFinalAnswer}, out);
}

std::string Encoder::Head(const Outline& outline) const {
  std::string head;
  JsonWriter w(head);
  w.Object();
  w.Key("id").String(id_);
  w.Key("object").String("response");
  w.Key("created_at").Int(created_s_);
  w.Key("status").String(outline.status);
  w.Key("background").Bool(false);
  w.Key("content_filters").Null();
  w.Key("error");
  if (outline.error_code.empty()) {
    w.Null();
  } else {
    w.Object().Key("code").String(outline.error_code);
    w.Key("message").String(outline.error_message).EndObject();
  }
  w.Key("incomplete_details");
  if (outline.incomplete_reason.empty()) {
    w.Null();
  } else {
    w.Object().Key("reason").String(outline.incomplete_reason).EndObject();
  }
  w.Key("store").Bool(outline.is_stored);
  w.Key("usage");
  WriteUsage(outline.usage, w);
  if (!spec_.echo.empty()) head += "," + spec_.echo;
  return head;
}

StoredResponse Encoder::Whole(const Outline& outline) const {
  return {.head = Head(outline), .output = done_, .input = {}};
}

void Encoder::Finish(const wire::Usage& usage, std::string& out) {
  const std::string_view reason = IncompleteReason(finish_);
  Outline outline{.status = reason.empty() ? "completed" : "incomplete",
                  .incomplete_reason = reason,
                  .usage = &usage,
                  .is_stored = spec_.keep.was_asked};
  StoredResponse response = Whole(outline);
  response.input = spec_.keep.input;
  const bool is_kept = spec_.keep.store != nullptr && spec_.keep.store->Takes(response.n_bytes());
  if (outline.is_stored && !is_kept) {  // it has grown too long meanwhile
    outline.is_stored = false;
    response.head = Head(outline);
  }
  const std::string text = response.ToText();
  if (spec_.stream) {
    JsonWriter w = BeginEvent(reason.empty() ? "response.completed" : "response.incomplete", out);
    w.Key("response").Raw(text);
    EndEvent(w, out);
  } else {
    out += text;
  }
  if (is_kept) spec_.keep.store->Keep(spec_.keep.key, id_, std::move(response));
}

void Encoder::Heartbeat(std::string& out) {
  if (!spec_.stream) {
    out += '\n';  // white space in front of a JSON body is legal
  } else if (!has_begun_) {
    Begin(0, {}, out);
  } else if (open_ && IsAnnounced(open_->kind)) {
    // Only events are a sign of life to Codex (spec clients.md §1 rule 6), and `in_progress` is for
    // the time between items: an open one gets a delta that adds nothing.
    WriteDelta("", "", out);
  } else {
    EventOf("response.in_progress", {.status = "in_progress", .is_stored = spec_.keep.was_asked},
            out);
  }
}

void Encoder::Fail(const Status& status, std::string_view request_id, std::string& out) {
  if (!spec_.stream) {
    out += OpenAiErrorBody(status, request_id);
    return;
  }
  // `failed`, not `error`: Codex knows only the former (spec http-api.md §10.1). The item that was
  // open gets no end: a client that executes calls must not take half a one for whole.
  Begin(0, {}, out);
  const bool is_ours = RowOf(status.code()).http_status >= 500;
  const std::string message = ShownMessage(status, request_id);
  EventOf("response.failed",
          {.status = "failed",
           .error_code = is_ours ? std::string_view("server_error") : status.api_code(),
           .error_message = message},
          out);
}

}  // namespace sluice::codec::responses
