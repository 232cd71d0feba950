#include "codec/prompt_reader.h"

#include "base/check.h"
#include "base/utf8.h"

namespace sluice::codec {

PromptPiece PromptReader::Read(std::span<const wire::TokenLogprob> scores) {
  tokens_.clear();
  others_.clear();
  text_.clear();
  size_t n_others = 0;
  for (const wire::TokenLogprob& score : scores) n_others += score.alternatives.size();
  others_.reserve(n_others);  // the spans into it must stay valid
  if (n_read_ == 0) Add(nullptr);
  for (const wire::TokenLogprob& score : scores) Add(&score);
  const bool is_end = n_read_ == std::ssize(spec_.prompt);
  const size_t n_held = is_end ? 0 : static_cast<size_t>(IncompleteTail(bytes_));
  AppendValidUtf8(text_, std::string_view(bytes_).substr(0, bytes_.size() - n_held));
  bytes_.erase(0, bytes_.size() - n_held);
  return {.tokens = tokens_, .text = text_};
}

void PromptReader::Add(const wire::TokenLogprob* score) {
  SLUICE_CHECK(n_read_ < std::ssize(spec_.prompt));
  const TokenId token = spec_.prompt[static_cast<size_t>(n_read_)];
  const size_t first = others_.size();
  if (score != nullptr) {
    for (const auto& alternative : score->alternatives) {
      others_.push_back(TextOf(alternative.token));
    }
  }
  tokens_.push_back({.id = token.value,
                     .pos = n_read_,
                     .text = TextOf(token),
                     .score = score,
                     .others = std::span(others_).subspan(first)});
  if (n_read_ >= spec_.n_ours) bytes_ += tokens_.back().text;
  ++n_read_;
}

// A model may have tokens that its tokenizer does not name.
std::string_view PromptReader::TextOf(TokenId token) const {
  const bool is_known = token.value >= 0 && token.value < vocabulary_.size();
  return is_known ? vocabulary_.text(token) : std::string_view();
}

}  // namespace sluice::codec
