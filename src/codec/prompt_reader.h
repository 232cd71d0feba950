// PromptReader: the tokens of a scored prompt with their texts, as their scores come. One per
// choice; owned by the net thread.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/output_event.h"
#include "token/vocabulary.h"
#include "wire/event.h"

namespace sluice::codec {

class PromptReader {
 public:
  // Both outlive the reader. The prompt is not empty.
  PromptReader(const token::Vocabulary& vocabulary, const PromptScores& spec)
      : vocabulary_(vocabulary), spec_(spec) {}

  // The first call answers the prompt's first token, too, which has no score. The joined texts do
  // not depend on how scores are cut into calls; a broken character is U+FFFD. The views live until
  // the next call, and as long as `scores`, of which there are no more than tokens without one.
  PromptPiece Read(std::span<const wire::TokenLogprob> scores);

 private:
  void Add(const wire::TokenLogprob* score);
  std::string_view TextOf(TokenId token) const;

  const token::Vocabulary& vocabulary_;
  const PromptScores& spec_;
  int32_t n_read_ = 0;
  std::vector<PromptToken> tokens_;
  std::vector<std::string_view> others_;  // of all of tokens_
  std::string bytes_;                     // the end of one that is not complete comes with the next
  std::string text_;
};

}  // namespace sluice::codec
