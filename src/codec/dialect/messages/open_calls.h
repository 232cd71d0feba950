// OpenCalls: which calls of the latest assistant message still wait for their result (spec
// recipe.md §7.3). The texts are the reference's; clients match on them. Thread-compatible.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice::codec::messages {

class OpenCalls {
 public:
  // A block: its message and its place in it.
  struct Place {
    int32_t message;
    int32_t block;
  };

  // An assistant message begins; the calls before it are answered.
  void Begin(int32_t message);
  Status Open(const Place& place, std::string_view id);
  // Text in an assistant message: not behind a call.
  Status CheckText(const Place& place) const;

  Status Answer(const Place& place, std::string_view id);
  // Anything else in the next message: not in front of a result.
  Status CheckAnswered(int32_t message) const;
  // The end of the next message, or of the conversation: every call has its result.
  Status Close();

 private:
  std::string OpenIds() const;

  int32_t message_ = -1;  // with the calls
  std::vector<std::string_view> ids_;
  std::map<std::string_view, bool> is_answered_;
  size_t n_answered_ = 0;
};

}  // namespace sluice::codec::messages
