#include "codec/format/visible_tokens.h"

#include "base/check.h"

namespace sluice::codec {

void VisibleTokens::Show(OutputKind kind, int32_t first, int32_t last) {
  DropBefore(first);
  for (; first_unsettled_ <= last; ++first_unsettled_) {
    SLUICE_CHECK(!unsettled_.empty());
    Entry& entry = unsettled_.front();
    if (entry.logprob) kinds_[static_cast<size_t>(kind)].entries.push_back(std::move(entry));
    unsettled_.pop_front();
  }
}

void VisibleTokens::DropBefore(int32_t end) {
  for (; first_unsettled_ < end; ++first_unsettled_) {
    SLUICE_CHECK(!unsettled_.empty());
    Entry& entry = unsettled_.front();
    if (lists_hidden_ && entry.logprob) {
      kinds_[static_cast<size_t>(OutputKind::kContent)].entries.push_back(std::move(entry));
    }
    unsettled_.pop_front();
  }
}

std::span<const TokenText> VisibleTokens::Shown(OutputKind kind) {
  Kind& k = kinds_[static_cast<size_t>(kind)];
  k.texts.clear();
  k.alternatives.clear();
  size_t n_alternatives = 0;
  for (const Entry& entry : k.entries) n_alternatives += entry.logprob->alternatives.size();
  k.alternatives.reserve(n_alternatives);  // the spans below must stay valid
  for (const Entry& entry : k.entries) {
    size_t first = k.alternatives.size();
    for (const wire::TokenLogprob::Alternative& a : entry.logprob->alternatives) {
      k.alternatives.push_back({.text = TextOf(a.token), .logprob = a.logprob});
    }
    k.texts.push_back({.text = TextOf(entry.token),
                       .logprob = entry.logprob->logprob,
                       .alternatives = std::span(k.alternatives).subspan(first)});
  }
  return k.texts;
}

void VisibleTokens::Forget() {
  for (Kind& kind : kinds_) kind.entries.clear();
}

std::string_view VisibleTokens::TextOf(TokenId token) const {
  const bool is_known = token.value >= 0 && token.value < vocabulary_.size();
  return is_known ? vocabulary_.text(token) : std::string_view();
}

}  // namespace sluice::codec
