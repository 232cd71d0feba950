// Content of a Messages request: a string or a list of blocks (spec recipe.md §7.3). Shape only;
// what a block means where it stands is messages.h. Pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace sluice::codec::messages {

enum class BlockType : uint8_t {
  kText,
  kImage,
  kDocument,
  kThinking,
  kRedactedThinking,
  kToolUse,
  kToolResult,
  kServerToolUse,
  kWebSearchResult,
  kToolAddition,   // system: a tool is shown from here on
  kToolReference,  // in a tool result: the same
};

// The views live as long as the request's JSON.
struct Block {
  BlockType type = BlockType::kText;
  std::string_view text;       // kText, kThinking
  JsonValue source;            // kImage, kDocument
  std::string_view id;         // kToolUse, kToolResult
  std::string_view name;       // kToolUse, kToolAddition, kToolReference
  JsonValue input;             // kToolUse; any value
  std::vector<Block> content;  // kToolResult
};

// Where blocks stand decides which types there are.
enum class BlockPlace : uint8_t { kMessage, kToolResult, kSystemField };

// Appends. `path` is "messages[2].content".
struct BlockParams {
  const std::string& path;
  BlockPlace place;
  bool extensions;  // redacted_thinking is known
};
Status ReadBlocks(const BlockParams& params, const JsonValue& value, std::vector<Block>& blocks);

}  // namespace sluice::codec::messages
