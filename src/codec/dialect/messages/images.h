// Images of a Messages request (spec recipe.md §9). Pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec::messages {

// Where an image stands. Errors name the block, the image itself the message or result it is in.
struct ImagePlace {
  int32_t message;
  int32_t block;
  int32_t part = -1;  // in the content of a tool result
  bool is_system = false;
};

// Appends a placeholder for `source`, whose shape was checked, at the end of `message`'s text.
Status AddImage(const ImagePlace& place, const JsonValue& source, Message& message);

}  // namespace sluice::codec::messages
