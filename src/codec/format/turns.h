// The order of a conversation's messages as the model reads them (spec recipe.md §3.1):
// neighbouring users are one, results stand in the order of their calls. Pure functions.

#pragma once

#include <span>
#include <vector>

#include "codec/conversation.h"

namespace sluice::codec {

// Messages that are read as one: all users, or a single message; none of a system turn that stands
// there for what is added to it.
struct Turn {
  Role role;
  std::span<const Message> messages;
};

std::vector<Turn> TurnsOf(std::span<const Message> messages);

}  // namespace sluice::codec
