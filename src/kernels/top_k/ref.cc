#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "kernels/top_k/op.h"

namespace sluice::ops::top_k {
namespace {

// Scores as unsigned numbers of the same order: larger key, better score; equal scores, equal keys.
constexpr uint32_t kNever = 0;
constexpr uint32_t kAlways = std::numeric_limits<uint32_t>::max();

// -inf, as a masked entry has, is never chosen; nor is NaN.
uint32_t KeyOf(float score) {
  if (!(score > -std::numeric_limits<float>::infinity())) return kNever;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 becomes 0: they are equal
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

// Finds what the `n_chosen` largest of keys [n] have in common: they are all keys above `threshold`
// and the first `n_ties` equal to it. One digit of 8 bits after the other, the highest first.
struct Cut {
  uint32_t threshold;
  int64_t n_ties;
};
Cut FindCut(const uint32_t* keys, int64_t n, int64_t n_chosen) {
  uint32_t prefix = 0;
  int64_t n_left = n_chosen;
  for (int32_t shift = 24; shift >= 0; shift -= 8) {
    const uint32_t known = shift == 24 ? 0 : ~0U << (shift + 8);
    int64_t n_with[256] = {};
    for (int64_t i = 0; i < n; ++i) {
      if (((keys[i] ^ prefix) & known) == 0) ++n_with[(keys[i] >> shift) & 255];
    }
    uint32_t digit = 255;
    for (; n_with[digit] < n_left; --digit) n_left -= n_with[digit];
    prefix |= digit << shift;
  }
  return {.threshold = prefix, .n_ties = n_left};
}

// Places of the n_chosen largest keys, ties to the lower place; ascending, the rest -1.
void ChooseLargest(const uint32_t* keys, int64_t n, int32_t n_chosen, int32_t* places) {
  const int64_t n_possible = n - std::count(keys, keys + n, kNever);
  const int64_t n_found = std::min<int64_t>(n_chosen, n_possible);
  int32_t* end = places;
  if (n_found > 0) {
    Cut cut = FindCut(keys, n, n_found);
    for (int64_t i = 0; i < n; ++i) {
      const bool is_tie = keys[i] == cut.threshold;
      if (keys[i] < cut.threshold || (is_tie && cut.n_ties == 0)) continue;
      if (is_tie) --cut.n_ties;
      *end++ = static_cast<int32_t>(i);
    }
  }
  std::fill(end, places + n_chosen, -1);
}

void ChooseCandidates(
    const Params& params, const float* scores, int64_t n_visible, uint32_t* keys, int32_t* blocks) {
  const int64_t n = (n_visible + params.block_size - 1) / params.block_size;
  for (int64_t block = 0; block < n; ++block) {
    const int64_t begin = block * params.block_size;
    const int64_t end = std::min(begin + params.block_size, n_visible);
    keys[block] = kNever;
    for (int64_t i = begin; i < end; ++i) keys[block] = std::max(keys[block], KeyOf(scores[i]));
  }
  if (n > 0) keys[n - 1] = kAlways;  // the newest visible entry's
  ChooseLargest(keys, n, params.n_blocks, blocks);
}

void ChooseFromAll(
    const Params& params, const float* scores, int64_t n_visible, uint32_t* keys, int32_t* chosen) {
  for (int64_t i = 0; i < n_visible; ++i) keys[i] = KeyOf(scores[i]);
  ChooseLargest(keys, n_visible, params.n_chosen, chosen);
}

// The keys of the listed blocks stand one after the other. Only the last block can be cut short, so
// a key's place tells its entry.
void ChooseInside(const Params& params,
                  const float* scores,
                  int64_t n_visible,
                  const int32_t* blocks,
                  uint32_t* keys,
                  int32_t* chosen) {
  int64_t n = 0;
  for (int32_t i = 0; i < params.n_blocks && blocks[i] >= 0; ++i) {
    const int64_t begin = int64_t{blocks[i]} * params.block_size;
    const int64_t end = std::min(begin + params.block_size, n_visible);
    for (int64_t entry = begin; entry < end; ++entry) keys[n++] = KeyOf(scores[entry]);
  }
  ChooseLargest(keys, n, params.n_chosen, chosen);
  for (int32_t i = 0; i < params.n_chosen && chosen[i] >= 0; ++i) {
    const int32_t block = blocks[chosen[i] / params.block_size];
    chosen[i] = block * params.block_size + chosen[i] % params.block_size;
  }
}

void ChooseRow(const Params& params, int64_t row, uint32_t* keys) {
  const float* scores = params.scores + row * params.stride;
  const int64_t n_visible = params.n_visible[row];
  SLUICE_CHECK(n_visible >= 0 && n_visible <= params.stride);
  if (params.candidates != nullptr) {
    ChooseCandidates(params, scores, n_visible, keys, params.candidates + row * params.n_blocks);
  }
  int32_t* chosen = params.chosen + row * params.n_chosen;
  if (params.inside == nullptr) {
    ChooseFromAll(params, scores, n_visible, keys, chosen);
  } else {
    const int32_t* blocks = params.inside + row * params.n_blocks;
    ChooseInside(params, scores, n_visible, blocks, keys, chosen);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      ChooseRow(params, row, reinterpret_cast<uint32_t*>(params.scratch) + row * params.stride);
    }
  });
}

}  // namespace sluice::ops::top_k
