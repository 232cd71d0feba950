// VisibleTokens: which sampled tokens became visible text, for log probabilities: exactly one entry
// per token of visible text (spec recipe.md §8.7). A lexer reads tokens before it knows whether
// their text will be shown. Tokens are named by their index in the output. Owned by its lexer.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "codec/output_event.h"
#include "token/vocabulary.h"
#include "wire/event.h"

namespace sluice::codec {

class VisibleTokens {
 public:
  // The vocabulary outlives what is shown. `lists_hidden`: tokens that never become visible text
  // have an entry as well, as content; for clients that count entries.
  explicit VisibleTokens(const token::Vocabulary& vocabulary, bool lists_hidden = false)
      : vocabulary_(vocabulary), lists_hidden_(lists_hidden) {}

  // The next token of the output. `logprob`: null if the service told none; then it has no entry.
  void Read(TokenId token, const wire::TokenLogprob* logprob) {
    Entry& entry = unsettled_.emplace_back(Entry{.token = token});
    if (logprob != nullptr) entry.logprob = *logprob;
  }
  // The tokens first to last hold a character that was shown as `kind`. Characters come in order:
  // tokens before `first` that have not been shown never will be.
  void Show(OutputKind kind, int32_t first, int32_t last);
  // No character of the tokens before `end` will be shown any more.
  void DropBefore(int32_t end);

  // The entries shown as `kind`, reasoning or content, since Forget; the views live until Forget.
  std::span<const TokenText> Shown(OutputKind kind);
  void Forget();

 private:
  struct Entry {
    TokenId token;
    std::optional<wire::TokenLogprob> logprob;
  };
  struct Kind {
    std::vector<Entry> entries;
    std::vector<TokenText> texts;
    std::vector<TokenText::Alternative> alternatives;
  };
  std::string_view TextOf(TokenId token) const;

  const token::Vocabulary& vocabulary_;
  const bool lists_hidden_;
  std::deque<Entry> unsettled_;
  int32_t first_unsettled_ = 0;  // index of unsettled_[0]
  std::array<Kind, 2> kinds_;
};

}  // namespace sluice::codec
