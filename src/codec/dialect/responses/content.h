// Content of a Responses item: a string or a list of blocks. Pure functions.

#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/profile.h"

namespace sluice::codec::responses {

// Types only. `path` is "input[2].content".
Status CheckContentShape(const std::string& path, const JsonValue& content, const Profile& profile);

// Appends text and images to `message`, blocks joined with two line feeds. `content` passed
// CheckContentShape.
struct ContentPlace {
  std::string item;   // "input[2]"
  const char* field;  // "content"
  bool reads_images;
};
Status ReadContent(const ContentPlace& place, const JsonValue& content, Message& message);

}  // namespace sluice::codec::responses
