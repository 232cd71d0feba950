// SseReader: an event stream, cut anywhere, as events (WHATWG HTML §9.2.6). Ids and retry times
// mean nothing to us; comments are dropped. Owned by one thread.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice::load {

struct SseEvent {
  std::string name;  // empty: none was given
  std::string data;
};

class SseReader {
 public:
  // Appends the events that end in `bytes`. kTooLarge: one is longer than
  // limits::kMaxSseEventBytes.
  Status Push(std::string_view bytes, std::vector<SseEvent>& events);

  // An event has begun and not ended.
  bool is_inside() const { return has_data_ || !line_.empty() || !event_.name.empty(); }

 private:
  void EndLine(std::vector<SseEvent>& events);

  std::string line_;
  bool follows_cr_ = false;  // a line feed that comes next belongs to it
  SseEvent event_;
  bool has_data_ = false;
};

}  // namespace sluice::load
