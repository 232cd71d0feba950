// Format: how a model reads and writes a conversation in tokens, whichever model it is: a closed
// set, that of DeepSeek-V4.1 and ChatML with its families. Dialects know none of them; a new one is
// a folder of format/ and a line in each function of format.cc.
//
// A handle of two words, copied like a pointer; what it names outlives it and is immutable, so any
// thread may read.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "base/result.h"
#include "codec/conversation.h"
#include "codec/profile.h"
#include "wire/request.h"

namespace sluice::token {
class Bpe;
class Vocabulary;
}  // namespace sluice::token

namespace sluice::codec {

struct Prompt;
namespace deepseek_v41 {
class Format;
}
namespace chatml {
class Format;
}

class Format {
 public:
  Format(const deepseek_v41::Format& format) : format_(&format) {}
  Format(const chatml::Format& format) : format_(&format) {}

  std::string_view name() const;  // "smollm2"
  const token::Vocabulary& vocabulary() const;
  const token::Bpe& bpe() const;
  int32_t n_tokens() const;
  std::string_view text(TokenId id) const;

  // The id of a control token, by the enumerator of the format's Control.
  TokenId control(uint8_t control) const;
  // Each of them ends an answer; a turn of the history ends with the first one.
  std::span<const TokenId> ends() const;
  bool is_end(TokenId id) const;
  // Control tokens that an answer never holds. By id.
  std::span<const TokenId> stray() const;
  // What stands in front of a text that is no conversation; absent: nothing does.
  std::optional<TokenId> begin() const;

  // Of requests that ask for nothing.
  wire::SamplingParams sampling() const;

  bool thinks() const;    // an answer may begin with reasoning
  bool fills_in() const;  // reads a prompt with a suffix

  // The conversation outlives the prompt, whose images and messages belong to it.
  Prompt Render(const Conversation& conversation, const Profile& profile) const;
  // The markup of a call that Render puts behind the prompt, since one is required, from its first
  // character that is not white space; empty: none.
  std::string CallsOpening(const Conversation& conversation) const;

 private:
  friend class OutputLexer;
  std::variant<const deepseek_v41::Format*, const chatml::Format*> format_;
};

// The formats by name, as an operator chooses one.
enum class FormatName : uint8_t { kAuto, kDeepseekV41, kSmollm2, kQwen25 };
inline constexpr std::string_view kFormatNames[] = {"auto", "deepseek-v4.1", "smollm2", "qwen2.5"};

// Owns what a handle names.
class OwnedFormat {
 public:
  explicit OwnedFormat(std::unique_ptr<const deepseek_v41::Format> format);
  explicit OwnedFormat(std::unique_ptr<const chatml::Format> format);
  OwnedFormat(OwnedFormat&&) noexcept;
  ~OwnedFormat();

  Format get() const;

 private:
  std::variant<std::unique_ptr<const deepseek_v41::Format>, std::unique_ptr<const chatml::Format>>
      format_;
};

struct FormatChoice {
  FormatName name = FormatName::kAuto;
  std::string_view architecture;  // what the model's file says it is, "llama"; empty: not known
  std::optional<TokenId> begin;   // the file wants it in front of a text
};

// The format of a model with this tokenizer. kAuto: architecture, rules of the tokenizer and
// control tokens together name it; kUnsupported with the list of the known if they name none. Else
// kInvalidArgument, naming the first control token that the vocabulary lacks.
Result<OwnedFormat> MakeFormat(token::Vocabulary vocabulary, const FormatChoice& choice);

}  // namespace sluice::codec
