// OutputItem: one item of a Responses answer, and how it is written. Plain data; pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_writer.h"

namespace sluice::codec::responses {

enum class OutputItemKind : uint8_t {
  kReasoning,
  kMessage,
  kFunctionCall,
  kCustomCall,
  kSearchCall
};

struct OutputItem {
  OutputItemKind kind = OutputItemKind::kMessage;
  int32_t index = 0;
  std::string id;        // one for the item's whole life
  std::string text;      // of reasoning or message, arguments, input
  std::string logprobs;  // of a message: entries without brackets
  std::string opaque;    // kReasoning: what clients send back unread
  std::string call_id;   // of a call, as the rest
  std::string name;
  std::string name_space;
};

// How events and ids name this kind of item: "msg", …
const char* IdPrefixOf(OutputItemKind kind);

// The item as `response.output_item.added` announces it, still empty.
void WriteNewItem(const OutputItem& item, JsonWriter& w);

// The item as it stays. `status`: completed or incomplete; `phase`: of a message.
struct ItemEnd {
  std::string_view status;
  std::string_view phase;
};
void WriteItem(const OutputItem& item, const ItemEnd& end, JsonWriter& w);

// The one content part of reasoning or message, with what there is of its text.
void WritePart(const OutputItem& item, JsonWriter& w);
void WriteEmptyPart(const OutputItem& item, JsonWriter& w);

}  // namespace sluice::codec::responses
