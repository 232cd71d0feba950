#include "codec/dialect/responses/item_writer.h"

#include "base/json.h"
#include "base/limits.h"

namespace sluice::codec::responses {
namespace {

// A stored item is read again inside other containers.
constexpr Json::Limits kArgumentLimits{.depth = limits::kMaxJsonDepth - 8};

struct Shown {
  std::string_view text;
  std::string_view logprobs;
};

void WritePartWith(const OutputItem& item, const Shown& shown, JsonWriter& w) {
  w.Object();
  if (item.kind == OutputItemKind::kReasoning) {
    w.Key("type").String("reasoning_text");
  } else {
    w.Key("type").String("output_text");
    w.Key("annotations").Array().EndArray();
    w.Key("logprobs").Raw("[" + std::string(shown.logprobs) + "]");
  }
  w.Key("text").String(shown.text);
  w.EndObject();
}

// A search's arguments are an object on the wire, whatever the model wrote.
void WriteArguments(std::string_view text, JsonWriter& w) {
  Result<Json> json = Json::Parse(text, kArgumentLimits);
  const bool is_object = json && json->root().is_object();
  w.Raw(is_object ? json->root().ToText() : "{}");
}

void WriteCall(const OutputItem& item, std::string_view text, JsonWriter& w) {
  w.Key("call_id").String(item.call_id);
  if (item.kind == OutputItemKind::kSearchCall) {
    w.Key("execution").String("client");
    w.Key("arguments");
    WriteArguments(text, w);
    return;
  }
  w.Key("name").String(item.name);
  if (!item.name_space.empty()) w.Key("namespace").String(item.name_space);
  w.Key(item.kind == OutputItemKind::kCustomCall ? "input" : "arguments").String(text);
}

const char* TypeOf(OutputItemKind kind) {
  switch (kind) {
    case OutputItemKind::kReasoning:
      return "reasoning";
    case OutputItemKind::kMessage:
      return "message";
    case OutputItemKind::kFunctionCall:
      return "function_call";
    case OutputItemKind::kCustomCall:
      return "custom_tool_call";
    case OutputItemKind::kSearchCall:
      return "tool_search_call";
  }
  return "";
}

void WriteItemWith(const OutputItem& item, const ItemEnd& end, bool is_new, JsonWriter& w) {
  w.Object();
  w.Key("id").String(item.id);
  w.Key("type").String(TypeOf(item.kind));
  w.Key("status").String(end.status);
  const bool has_content =
      item.kind == OutputItemKind::kMessage || item.kind == OutputItemKind::kReasoning;
  if (item.kind == OutputItemKind::kMessage) {
    w.Key("role").String("assistant");
    w.Key("phase").String(end.phase);
  }
  if (has_content) {
    w.Key("content").Array();
    if (!is_new) WritePart(item, w);
    w.EndArray();
  } else {
    WriteCall(item, is_new ? std::string_view() : item.text, w);
  }
  if (item.kind == OutputItemKind::kReasoning) {
    w.Key("summary").Array().EndArray();
    w.Key("encrypted_content").String(item.opaque);
  }
  w.EndObject();
}

}  // namespace

const char* IdPrefixOf(OutputItemKind kind) {
  switch (kind) {
    case OutputItemKind::kReasoning:
      return "rs";
    case OutputItemKind::kMessage:
      return "msg";
    case OutputItemKind::kFunctionCall:
      return "fc";
    case OutputItemKind::kCustomCall:
      return "ctc";
    case OutputItemKind::kSearchCall:
      return "tsc";
  }
  return "";
}

void WriteNewItem(const OutputItem& item, JsonWriter& w) {
  WriteItemWith(item, {.status = "in_progress", .phase = "final_answer"}, /*is_new=*/true, w);
}

void WriteItem(const OutputItem& item, const ItemEnd& end, JsonWriter& w) {
  WriteItemWith(item, end, /*is_new=*/false, w);
}

void WritePart(const OutputItem& item, JsonWriter& w) {
  WritePartWith(item, {.text = item.text, .logprobs = item.logprobs}, w);
}

void WriteEmptyPart(const OutputItem& item, JsonWriter& w) { WritePartWith(item, {}, w); }

}  // namespace sluice::codec::responses
