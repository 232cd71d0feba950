// VisibleTokens: which sampled tokens became visible text, for log probabilities: exactly one entry
// per token of visible text (spec recipe.md §8.7). A lexer reads tokens before it knows whether
// their text will be shown; it then settles them in the order in which it read them. Owned by its
// lexer.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/ids.h"
#include "codec/output_event.h"
#include "wire/event.h"

namespace sluice::codec {

class VisibleTokens {
 public:
  // The bytes of a token; the view lives as long as the vocabulary.
  using TextOf = std::string_view (*)(TokenId token);
  explicit VisibleTokens(TextOf text_of) : text_of_(text_of) {}

  void Read(TokenId token, const wire::TokenLogprob& logprob) {
    unsettled_.push_back({token, logprob});
  }
  // The next n tokens read were shown as `kind`, or will never be shown.
  void Show(OutputKind kind, int32_t n);
  void Drop(int32_t n);

  // The entries shown as `kind` since Forget; the views live until Forget.
  std::span<const TokenText> Shown(OutputKind kind);
  void Forget();

 private:
  struct Entry {
    TokenId token;
    wire::TokenLogprob logprob;
  };
  struct Kind {
    std::vector<Entry> entries;
    std::vector<TokenText> texts;
    std::vector<TokenText::Alternative> alternatives;
  };

  const TextOf text_of_;
  std::deque<Entry> unsettled_;
  std::array<Kind, 2> kinds_;
};

}  // namespace sluice::codec
