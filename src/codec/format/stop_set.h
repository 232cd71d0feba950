// StopSet: the stop strings of one request, searched in a text that comes byte by byte.
//
// Knuth-Morris-Pratt per string: a byte costs amortised constant time per stop string, whatever the
// text repeats. Immutable after construction; a Progress belongs to one text.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/containers.h"

namespace sluice::codec {

class StopSet {
 public:
  // How far one text has come in each stop string.
  struct Progress {
    SmallVec<int32_t, 4> n_matched;
    int32_t n_held = 0;  // bytes at the end of the text that may be the start of a stop string
  };

  explicit StopSet(const std::vector<std::string>& stops);

  bool empty() const { return stops_.empty(); }
  bool Contains(std::string_view stop) const;
  // False: no stop string begins within `text`.
  bool MayBegin(std::string_view text) const;

  void Restart(Progress& progress) const;

  // Takes the next byte. Length of the longest stop string that ends with it, 0 if none does.
  int32_t Advance(Progress& progress, char byte) const;

 private:
  struct Stop {
    std::string text;
    // [i]: longest proper prefix of text[0..i] that is also its suffix
    std::vector<int32_t> border;
  };
  std::vector<Stop> stops_;
  std::array<bool, 256> is_first_byte_{};
};

}  // namespace sluice::codec
