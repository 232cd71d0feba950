#include "load/sse_reader.h"

#include <fmt/format.h>

#include <utility>

#include "base/limits.h"

namespace sluice::load {

Status SseReader::Push(std::string_view bytes, std::vector<SseEvent>& events) {
  while (!bytes.empty()) {
    if (std::exchange(follows_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (static_cast<int64_t>(line_.size() + event_.data.size()) > limits::kMaxSseEventBytes) {
      return Status(ErrorCode::kTooLarge, fmt::format("an event of the stream exceeds {} bytes",
                                                      limits::kMaxSseEventBytes));
    }
    if (end == std::string_view::npos) break;
    follows_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    EndLine(events);
    line_.clear();
  }
  return Status::Ok();
}

void SseReader::EndLine(std::vector<SseEvent>& events) {
  if (line_.empty()) {
    if (has_data_) events.push_back(std::move(event_));
    event_ = {};
    has_data_ = false;
    return;
  }
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.name = value;
  }
}

}  // namespace sluice::load
