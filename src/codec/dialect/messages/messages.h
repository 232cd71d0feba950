// Messages of a Messages request (spec recipe.md §7.3). Shape first, meaning later: the order of
// checks is recipe.md §6.1. Pure functions.

#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect/messages/blocks.h"
#include "codec/dialect/messages/tools.h"

namespace sluice::codec::messages {

struct RawMessage {
  Role role = Role::kUser;  // kUser, kAssistant or kSystem
  std::vector<Block> blocks;
  bool is_list = false;  // of blocks, maybe none; else a string
};

// Appends; types only. `value` is what `messages` holds.
Status ReadMessages(const JsonValue& value, bool extensions, std::vector<RawMessage>& messages);

// The system field: a string, or blocks of text.
struct RawSystem {
  bool is_list = false;
  std::vector<Block> blocks;
};
Status ReadSystem(const JsonValue& value, RawSystem& system);

// The first message, without a billing line.
void ConvertSystem(const RawSystem& system, const Profile& profile, Message& message);

// Checks what the messages say and how calls and results follow each other; appends. Tools to show
// (Message::tools) have a name only.
struct ConvertParams {
  const ClientTools& tools;
  const Profile& profile;
  bool reads_images;
};
Status ConvertMessages(const ConvertParams& params,
                       const std::vector<RawMessage>& raw,
                       std::vector<Message>& messages);

}  // namespace sluice::codec::messages
