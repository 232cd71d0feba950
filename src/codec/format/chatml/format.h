// Format: how the families of ChatML write a conversation in tokens: the vocabulary, its encoder,
// and what each control token is for. Immutable; any thread may read.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "codec/format/chatml/family.h"
#include "token/bpe.h"
#include "token/vocabulary.h"

namespace sluice::codec::chatml {

// The first three every vocabulary has; the marks of calls are plain text where it has none. The
// last one, which stands in front of a text that is no conversation, is what the file says, if it
// says one.
enum class Control : uint8_t { kStart, kEnd, kEndOfText, kToolCall, kEndToolCall, kBegin };
inline constexpr size_t kNumControls = 6;

std::string_view SpellingOf(Control control);  // not of kBegin

// What reading a token needs to know of it.
enum class TokenKind : uint8_t {
  kPlainText,  // whole characters, among them none that any state of a reader looks for
  kText,
  kEnd,  // of a turn or of a text
  kToolCall,
  kEndToolCall,
  kOtherControl,
};

class Format {
  struct OfMake {
    explicit OfMake() = default;
  };

 public:
  // kInvalidArgument, naming the first control token that the vocabulary lacks. `begin`: stands in
  // front of a text that is no conversation.
  static Result<std::unique_ptr<const Format>> Make(token::Vocabulary vocabulary,
                                                    Family family,
                                                    std::optional<TokenId> begin = std::nullopt);

  Format(OfMake, token::Vocabulary vocabulary, Family family);  // Make's

  Family family() const { return family_; }
  const token::Vocabulary& vocabulary() const { return vocabulary_; }
  const token::Bpe& bpe() const { return bpe_; }
  int32_t n_tokens() const { return vocabulary_.size(); }
  std::string_view text(TokenId id) const { return vocabulary_.text(id); }

  std::optional<TokenId> control(Control control) const {
    return controls_[static_cast<size_t>(control)];
  }
  // Both marks of calls are tokens; else they are text.
  bool has_call_tokens() const { return has_call_tokens_; }
  // `id` is in the vocabulary.
  TokenKind kind(TokenId id) const { return kinds_[static_cast<size_t>(id.value)]; }

  std::span<const TokenId> ends() const { return ends_; }
  std::span<const TokenId> stray() const { return stray_; }
  std::optional<TokenId> begin() const { return control(Control::kBegin); }

 private:
  Status FindControls();

  const token::Vocabulary vocabulary_;
  const token::Bpe bpe_;
  const Family family_;
  std::array<std::optional<TokenId>, kNumControls> controls_;
  bool has_call_tokens_ = false;
  std::vector<TokenKind> kinds_;  // [n_tokens()]
  std::vector<TokenId> ends_;
  std::vector<TokenId> stray_;
};

}  // namespace sluice::codec::chatml
