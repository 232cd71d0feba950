#include "codec/dialect/messages/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codec/dialect/field.h"

namespace sluice::codec::messages {
namespace {

Status ReadNeeded(const std::string& path,
                  std::string_view field,
                  const JsonValue& block,
                  std::string_view& into) {
  const std::string field_path = fmt::format("{}.{}", path, field);
  JsonValue value = block.Find(field);
  if (!value.exists()) return Missing(field_path, "a string");
  if (!value.is_string()) return WrongValue(field_path, "a string", value);
  into = value.AsString();
  return Status::Ok();
}

Status ReadText(const BlockParams& params, const JsonValue& value, Block& block) {
  return ReadNeeded(params.path, "text", value, block.text);
}

Status ReadThinking(const BlockParams& params, const JsonValue& value, Block& block) {
  return ReadNeeded(params.path, "thinking", value, block.text);
}

Status ReadNothing(const BlockParams&, const JsonValue&, Block&) { return Status::Ok(); }

constexpr std::string_view kMedia[] = {"image/jpeg", "image/jpg", "image/png", "image/gif",
                                       "image/webp"};

Status ReadImage(const BlockParams& params, const JsonValue& value, Block& block) {
  const std::string path = params.path + ".source";
  block.source = value.Find("source");
  if (!block.source.exists()) return Missing(path, "an object with `type`");
  if (!block.source.is_object()) return WrongValue(path, "an object with `type`", block.source);
  std::string_view type;
  SLUICE_TRY(ReadNeeded(path, "type", block.source, type));
  std::string_view ignored;
  if (type == "url") return ReadNeeded(path, "url", block.source, ignored);
  if (type == "file") return ReadNeeded(path, "file_id", block.source, ignored);
  if (type != "base64")
    return WrongValue(path + ".type", "one of base64, url, file", block.source.Find("type"));
  std::string_view media;
  SLUICE_TRY(ReadNeeded(path, "media_type", block.source, media));
  if (std::ranges::find(kMedia, media) == std::end(kMedia)) {
    return WrongValue(path + ".media_type",
                      "one of image/jpeg, image/jpg, image/png, image/gif, image/webp",
                      block.source.Find("media_type"));
  }
  return ReadNeeded(path, "data", block.source, ignored);
}

Status ReadDocument(const BlockParams& params, const JsonValue& value, Block& block) {
  const std::string path = params.path + ".source";
  block.source = value.Find("source");
  if (!block.source.exists()) return Missing(path, "an object");
  return block.source.is_object() ? Status::Ok() : WrongValue(path, "an object", block.source);
}

Status ReadToolUse(const BlockParams& params, const JsonValue& value, Block& block) {
  SLUICE_TRY(ReadNeeded(params.path, "id", value, block.id));
  SLUICE_TRY(ReadNeeded(params.path, "name", value, block.name));
  block.input = value.Find("input");
  return block.input.exists() ? Status::Ok() : Missing(params.path + ".input", "an object");
}

Status ReadToolResult(const BlockParams& params, const JsonValue& value, Block& block) {
  SLUICE_TRY(ReadNeeded(params.path, "tool_use_id", value, block.id));
  JsonValue content = value.Find("content");
  if (!content.exists() || content.is_null()) return Status::Ok();
  const std::string path = params.path + ".content";
  return ReadBlocks(
      {.path = path, .place = BlockPlace::kToolResult, .extensions = params.extensions}, content,
      block.content);
}

Status ReadToolAddition(const BlockParams& params, const JsonValue& value, Block& block) {
  const std::string path = params.path + ".tool";
  constexpr std::string_view kAllowed = "an object of type tool_reference";
  JsonValue tool = value.Find("tool");
  if (!tool.exists()) return Missing(path, kAllowed);
  if (!tool.is_object()) return WrongValue(path, kAllowed, tool);
  JsonValue type = tool.Find("type");
  if (!type.is_string() || type.AsString() != "tool_reference") {
    return type.exists() ? WrongValue(path + ".type", "\"tool_reference\"", type)
                         : Missing(path + ".type", "\"tool_reference\"");
  }
  return ReadNeeded(path, "name", tool, block.name);
}

Status ReadToolReference(const BlockParams& params, const JsonValue& value, Block& block) {
  return ReadNeeded(params.path, "tool_name", value, block.name);
}

struct TypeRow {
  std::string_view name;
  BlockType type;
  Status (*read)(const BlockParams& params, const JsonValue& value, Block& block);
};
constexpr TypeRow kTypes[] = {
    {"text", BlockType::kText, ReadText},
    {"image", BlockType::kImage, ReadImage},
    {"document", BlockType::kDocument, ReadDocument},
    {"thinking", BlockType::kThinking, ReadThinking},
    {"redacted_thinking", BlockType::kRedactedThinking, ReadNothing},
    {"tool_use", BlockType::kToolUse, ReadToolUse},
    {"tool_result", BlockType::kToolResult, ReadToolResult},
    {"server_tool_use", BlockType::kServerToolUse, ReadNothing},
    {"web_search_tool_result", BlockType::kWebSearchResult, ReadNothing},
    {"tool_addition", BlockType::kToolAddition, ReadToolAddition},
    {"tool_reference", BlockType::kToolReference, ReadToolReference},
};

std::string_view AllowedTypes(BlockPlace place) {
  switch (place) {
    case BlockPlace::kSystemField:
      return "\"text\"";
    case BlockPlace::kToolResult:
      return "one of text, image, document, tool_reference";
    case BlockPlace::kMessage:
      break;
  }
  return "one of text, image, document, thinking, redacted_thinking, tool_use, tool_result, "
         "server_tool_use, web_search_tool_result, tool_addition";
}

bool IsAllowed(BlockType type, const BlockParams& params) {
  const bool is_common =
      type == BlockType::kText || type == BlockType::kImage || type == BlockType::kDocument;
  switch (params.place) {
    case BlockPlace::kSystemField:
      return type == BlockType::kText;
    case BlockPlace::kToolResult:
      return is_common || type == BlockType::kToolReference;
    case BlockPlace::kMessage:
      break;
  }
  if (type == BlockType::kRedactedThinking) return params.extensions;
  return type != BlockType::kToolReference;
}

Status ReadBlock(const BlockParams& params, const JsonValue& value, Block& block) {
  if (!value.is_object()) return WrongValue(params.path, "an object", value);
  JsonValue type = value.Find("type");
  if (!type.exists()) return Missing(params.path + ".type", AllowedTypes(params.place));
  const std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  const TypeRow* row = std::ranges::find(kTypes, name, &TypeRow::name);
  if (row == std::end(kTypes) || !IsAllowed(row->type, params))
    return WrongValue(params.path + ".type", AllowedTypes(params.place), type);
  block.type = row->type;
  return row->read(params, value, block);
}

}  // namespace

Status ReadBlocks(const BlockParams& params, const JsonValue& value, std::vector<Block>& blocks) {
  if (value.is_string()) {
    blocks.push_back({.text = value.AsString()});
    return Status::Ok();
  }
  if (!value.is_array()) return WrongValue(params.path, "a string or a list of blocks", value);
  blocks.reserve(static_cast<size_t>(value.size()));
  for (JsonValue element : value.elements()) {
    const std::string path = fmt::format("{}[{}]", params.path, blocks.size());
    SLUICE_TRY(ReadBlock({.path = path, .place = params.place, .extensions = params.extensions},
                         element, blocks.emplace_back()));
  }
  return Status::Ok();
}

}  // namespace sluice::codec::messages
