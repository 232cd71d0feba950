// Format: how DeepSeek-V4.1 writes a conversation in tokens (spec recipe.md §1): the vocabulary,
// its encoder, and what each control token is for. Control tokens are found by name, so that a cut
// vocabulary serves as well. Immutable; any thread may read.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "token/bpe.h"
#include "token/vocabulary.h"

namespace sluice::codec::deepseek_v41 {

// The control tokens that the format speaks of; the last eight may stand in an assistant's text.
enum class Control : uint8_t {
  kBegin,  // of sentence
  kEnd,    // of sentence
  kSystem,
  kUser,
  kAssistant,
  kThink,
  kEndThink,
  kDsml,
  kReminder,
  kImage,
  kFimBegin,
  kFimHole,
  kFimEnd,
  kEndPolygon,
  kPolygon,
  kEndPoint,
  kPoint,
  kEndBox,
  kBox,
  kEndRef,
  kRef,
};
inline constexpr size_t kNumControls = 21;
inline constexpr size_t kFirstGrounding = static_cast<size_t>(Control::kEndPolygon);

std::string_view SpellingOf(Control control);

// What reading a token needs to know of it.
enum class TokenKind : uint8_t {
  kPlainText,  // whole characters, among them none that any state of a reader looks for
  kText,
  kEndOfSentence,
  kThink,
  kEndThink,
  kDsml,
  kGrounding,
  kOtherControl,
};

class Format {
  struct OfMake {
    explicit OfMake() = default;
  };

 public:
  // kInvalidArgument, naming the first control token that the vocabulary lacks.
  static Result<std::unique_ptr<const Format>> Make(token::Vocabulary vocabulary);

  Format(OfMake, token::Vocabulary vocabulary);  // Make's

  const token::Vocabulary& vocabulary() const { return vocabulary_; }
  const token::Bpe& bpe() const { return bpe_; }
  int32_t n_tokens() const { return vocabulary_.size(); }

  TokenId control(Control control) const { return controls_[static_cast<size_t>(control)]; }
  // `id` is in the vocabulary.
  TokenKind kind(TokenId id) const { return kinds_[static_cast<size_t>(id.value)]; }
  // The one that ends an answer.
  std::span<const TokenId> ends() const {
    return {&controls_[static_cast<size_t>(Control::kEnd)], 1};
  }
  // Control tokens that an answer never holds (spec recipe.md §8.1): all but the end of sentence,
  // the end of thinking, the mark of calls and grounding tokens. By id.
  std::span<const TokenId> stray() const { return stray_; }
  std::string_view text(TokenId id) const { return vocabulary_.text(id); }

 private:
  Status FindControls();

  const token::Vocabulary vocabulary_;
  const token::Bpe bpe_;
  std::array<TokenId, kNumControls> controls_;
  std::vector<TokenKind> kinds_;  // [n_tokens()]
  std::vector<TokenId> stray_;
};

}  // namespace sluice::codec::deepseek_v41
