#include "codec/format/chatml/format.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"

namespace sluice::codec::chatml {
namespace {

// By Control.
constexpr std::string_view kSpellings[] = {
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>",
};
constexpr size_t kNumSpelled = std::size(kSpellings), kNumNeeded = 3;

TokenKind KindOf(Control control) {
  switch (control) {
    case Control::kStart:
    case Control::kBegin:
      break;
    case Control::kEnd:
    case Control::kEndOfText:
      return TokenKind::kEnd;
    case Control::kToolCall:
      return TokenKind::kToolCall;
    case Control::kEndToolCall:
      return TokenKind::kEndToolCall;
  }
  return TokenKind::kOtherControl;
}

bool IsPlain(std::string_view text) {
  return text.find_first_of("\n<") == std::string_view::npos &&
         ValidUtf8Prefix(text) == text.size();
}

}  // namespace

std::string_view SpellingOf(Control control) { return kSpellings[static_cast<size_t>(control)]; }

Format::Format(OfMake, token::Vocabulary vocabulary, Family family)
    : vocabulary_(std::move(vocabulary)), bpe_(vocabulary_), family_(family) {}

Result<std::unique_ptr<const Format>> Format::Make(token::Vocabulary vocabulary,
                                                   Family family,
                                                   std::optional<TokenId> begin) {
  auto format = std::make_unique<Format>(OfMake(), std::move(vocabulary), family);
  SLUICE_TRY(format->FindControls());
  if (begin && (begin->value < 0 || begin->value >= format->n_tokens())) {
    return Status::Invalid(fmt::format("the token that begins a text is {}; there are {} tokens",
                                       begin->value, format->n_tokens()));
  }
  format->controls_[static_cast<size_t>(Control::kBegin)] = begin;
  return std::unique_ptr<const Format>(std::move(format));
}

Status Format::FindControls() {
  kinds_.reserve(static_cast<size_t>(n_tokens()));
  for (int32_t id = 0; id < n_tokens(); ++id) {
    kinds_.push_back(vocabulary_.is_added(TokenId(id)) ? TokenKind::kOtherControl
                     : IsPlain(text(TokenId(id)))      ? TokenKind::kPlainText
                                                       : TokenKind::kText);
  }
  for (size_t i = 0; i < kNumSpelled; ++i) {
    controls_[i] = vocabulary_.FindControl(kSpellings[i]);
    if (controls_[i]) continue;
    if (i >= kNumNeeded) continue;
    return Status::Invalid(fmt::format("the vocabulary has no {}, which the format {} needs",
                                       kSpellings[i], NameOf(family_)));
  }
  has_call_tokens_ = control(Control::kToolCall) && control(Control::kEndToolCall);
  for (size_t i = 0; i < (has_call_tokens_ ? kNumSpelled : kNumNeeded); ++i) {
    kinds_[static_cast<size_t>(controls_[i]->value)] = KindOf(static_cast<Control>(i));
  }
  ends_ = {*control(Control::kEnd), *control(Control::kEndOfText)};
  for (int32_t id = 0; id < n_tokens(); ++id) {
    if (kind(TokenId(id)) == TokenKind::kOtherControl) stray_.emplace_back(id);
  }
  return Status::Ok();
}

}  // namespace sluice::codec::chatml
