#include "codec/format/deepseek_v41/format.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"

namespace sluice::codec::deepseek_v41 {
namespace {

// By Control.
constexpr std::array<std::string_view, kNumControls> kSpellings = {
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜latest_reminder｜>",
    "<｜deepseek_image｜>",
    "<｜fim▁begin｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁end｜>",
    "<｜/polygon｜>",
    "<｜polygon｜>",
    "<｜/point｜>",
    "<｜point｜>",
    "<｜/box｜>",
    "<｜box｜>",
    "<｜/ref｜>",
    "<｜ref｜>",
};

TokenKind KindOf(size_t control) {
  if (control >= kFirstGrounding) return TokenKind::kGrounding;
  switch (static_cast<Control>(control)) {
    case Control::kEnd:
      return TokenKind::kEndOfSentence;
    case Control::kThink:
      return TokenKind::kThink;
    case Control::kEndThink:
      return TokenKind::kEndThink;
    case Control::kDsml:
      return TokenKind::kDsml;
    default:
      return TokenKind::kOtherControl;
  }
}

// U+FFFD, which the reference holds back like a broken character, begins with EF.
bool IsPlain(std::string_view text) {
  return text.find_first_of("\n<\xEF") == std::string_view::npos &&
         ValidUtf8Prefix(text) == text.size();
}

}  // namespace

std::string_view SpellingOf(Control control) { return kSpellings[static_cast<size_t>(control)]; }

Format::Format(OfMake, token::Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), bpe_(vocabulary_) {}

Result<std::unique_ptr<const Format>> Format::Make(token::Vocabulary vocabulary) {
  auto format = std::make_unique<Format>(OfMake(), std::move(vocabulary));
  SLUICE_TRY(format->FindControls());
  return std::unique_ptr<const Format>(std::move(format));
}

Status Format::FindControls() {
  kinds_.reserve(static_cast<size_t>(n_tokens()));
  for (int32_t id = 0; id < n_tokens(); ++id) {
    const bool is_control = vocabulary_.is_added(TokenId(id));
    kinds_.push_back(is_control                   ? TokenKind::kOtherControl
                     : IsPlain(text(TokenId(id))) ? TokenKind::kPlainText
                                                  : TokenKind::kText);
  }
  for (size_t i = 0; i < kNumControls; ++i) {
    const std::optional<TokenId> id = vocabulary_.FindControl(kSpellings[i]);
    if (!id) {
      return Status::Invalid(
          fmt::format("added_tokens: has no {}, which the model's format needs", kSpellings[i]));
    }
    controls_[i] = *id;
    kinds_[static_cast<size_t>(id->value)] = KindOf(i);
  }
  for (int32_t id = 0; id < n_tokens(); ++id) {
    const TokenKind kind = this->kind(TokenId(id));
    if (kind == TokenKind::kThink || kind == TokenKind::kOtherControl) stray_.emplace_back(id);
  }
  return Status::Ok();
}

}  // namespace sluice::codec::deepseek_v41
