#include "codec/dialect/messages/open_calls.h"

#include <fmt/format.h>

#include "codec/dialect/field.h"

namespace sluice::codec::messages {
namespace {

// Ids that an error lists: enough to see what is wrong.
constexpr int kMaxIdsShown = 8;

constexpr std::string_view kUnanswered =
    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` "
    "block must have a corresponding `tool_result` block in the next message.";

}  // namespace

void OpenCalls::Begin(int32_t message) {
  message_ = message;
  ids_.clear();
  is_answered_.clear();
  n_answered_ = 0;
}

Status OpenCalls::Open(const Place& place, std::string_view id) {
  if (!is_answered_.emplace(id, false).second) {
    return Status::Invalid(fmt::format("messages.{}.content.{}: `tool_use` ids must be unique",
                                       place.message, place.block));
  }
  ids_.push_back(id);
  return Status::Ok();
}

Status OpenCalls::CheckText(const Place& place) const {
  if (ids_.empty()) return Status::Ok();
  return Status::Invalid(fmt::format("messages.{}.{}: {}", place.message, place.block,
                                     fmt::format(kUnanswered, OpenIds())));
}

Status OpenCalls::Answer(const Place& place, std::string_view id) {
  auto call = is_answered_.find(id);
  if (call == is_answered_.end()) {
    return Status::Invalid(fmt::format(
        "unexpected `messages.{}.content.{}: tool_use_id` found in `tool_result` blocks: {}. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
        place.message, place.block, Shorten(id)));
  }
  if (call->second) {
    return Status::Invalid(fmt::format(
        "messages.{}.content.{}: each tool_use must have a single result. Found multiple "
        "`tool_result` blocks with id: {}",
        place.message, place.block, Shorten(id)));
  }
  call->second = true;
  ++n_answered_;
  return Status::Ok();
}

Status OpenCalls::CheckAnswered(int32_t message) const {
  if (n_answered_ == ids_.size()) return Status::Ok();
  return Status::Invalid(
      fmt::format("messages.{}: {}", message, fmt::format(kUnanswered, OpenIds())));
}

Status OpenCalls::Close() {
  if (n_answered_ != ids_.size()) {
    return Status::Invalid(
        fmt::format("messages.{}:{}", message_, fmt::format(kUnanswered, OpenIds())));
  }
  Begin(-1);
  return Status::Ok();
}

std::string OpenCalls::OpenIds() const {
  std::string text;
  int n_shown = 0;
  for (std::string_view id : ids_) {
    if (is_answered_.at(id)) continue;
    if (n_shown == kMaxIdsShown) return text + ", …";
    if (n_shown++ > 0) text += ", ";
    text += Shorten(id);
  }
  return text;
}

}  // namespace sluice::codec::messages
