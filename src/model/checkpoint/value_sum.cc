#include "model/checkpoint/value_sum.h"

#include <bit>
#include <cstring>

namespace sluice::model {

// Each round is one to one in the sum and in the word, so a changed word changes its lane whatever
// follows. Four lanes, because a multiplication waits for the one before it. Nobody attacks a model
// of his own: SHA-256 would take minutes of loading.
void AddToSum(ValueSum& sum, ConstBytes bytes) {
  constexpr uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
  const auto add = [](uint64_t& lane, uint64_t word) {
    lane = std::rotl((lane ^ word) * kOdd, 29);
  };
  constexpr size_t kRoundBytes = sizeof(ValueSum);
  const size_t n_whole = bytes.size() / kRoundBytes * kRoundBytes;
  ValueSum words{};
  for (size_t at = 0; at < n_whole; at += kRoundBytes) {
    std::memcpy(words.data(), bytes.data() + at, kRoundBytes);
    for (size_t lane = 0; lane < sum.size(); ++lane) add(sum[lane], words[lane]);
  }
  words = {};
  std::memcpy(words.data(), bytes.data() + n_whole, bytes.size() - n_whole);
  for (size_t lane = 0; lane < sum.size(); ++lane) add(sum[lane], words[lane] + bytes.size());
}

}  // namespace sluice::model
