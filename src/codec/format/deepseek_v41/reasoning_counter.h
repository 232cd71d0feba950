// ReasoningCounter: how many tokens the reasoning that was shown is, encoded anew (spec recipe.md
// §8.5). The text comes in pieces and is encoded in pieces, which are cut where tokens cannot go
// across, so that the net thread never meets a long one. A text without any such place is cut
// after kMaxPending bytes; then the count may be one too many. Owned by its lexer.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "token/bpe.h"

namespace sluice::codec::deepseek_v41 {

class ReasoningCounter {
 public:
  // `bpe` outlives the counter.
  explicit ReasoningCounter(const token::Bpe& bpe) : bpe_(bpe) {}

  // Whole characters.
  void Add(std::string_view text) {
    pending_ += text;
    if (pending_.size() >= next_try_) EncodeSafePart();
  }
  // Tokens of the whole text so far. Cheap to ask at the end; encodes what is pending.
  int32_t Count();

 private:
  static constexpr size_t kTryBytes = 512;
  static constexpr size_t kMaxPending = 16'384;

  void EncodeSafePart();
  void EncodePrefix(size_t n_bytes);

  const token::Bpe& bpe_;
  std::string pending_;
  size_t next_try_ = kTryBytes;
  int32_t n_counted_ = 0;
  std::vector<TokenId> ids_;  // scratch
};

}  // namespace sluice::codec::deepseek_v41
