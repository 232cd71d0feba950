#include "token/detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace sluice::token {
namespace {

// A model that writes nothing but broken bytes would let them wait for ever: so many characters
// U+FFFD wait at the end of a text, the ones before them do not.
constexpr size_t kMaxWaiting = 256;

// Bytes of the characters U+FFFD at the end.
size_t ReplacedTail(std::string_view text) {
  const size_t n_bytes = text.size();
  while (text.ends_with(kReplacementCharacter)) text.remove_suffix(kReplacementCharacter.size());
  return n_bytes - text.size();
}

}  // namespace

void Detokenizer::Push(std::span<const TokenId> tokens, std::vector<std::string>& texts) {
  for (const TokenId token : tokens) {
    if (!vocabulary_.is_added(token)) {
      waiting_ += vocabulary_.text(token);
      continue;
    }
    if (std::string text = TakeWaiting(); !text.empty()) texts.push_back(std::move(text));
    texts.emplace_back(vocabulary_.text(token));
  }
  const auto n_incomplete = static_cast<size_t>(IncompleteTail(waiting_));
  const std::string incomplete = waiting_.substr(waiting_.size() - n_incomplete);
  waiting_.resize(waiting_.size() - n_incomplete);
  std::string text = TakeWaiting();

  const size_t n_replaced = ReplacedTail(text);
  const bool must_wait = n_replaced > 0 || n_incomplete > 0;
  constexpr size_t kMaxReplaced = kMaxWaiting * kReplacementCharacter.size();
  size_t n_ready = must_wait ? 0 : text.size();
  if (n_replaced > kMaxReplaced) n_ready = text.size() - kMaxReplaced;
  waiting_ = text.substr(n_ready) + incomplete;
  text.resize(n_ready);
  if (!text.empty()) texts.push_back(std::move(text));
}

std::string Detokenizer::Finish() {
  std::string text = TakeWaiting();
  text.resize(text.size() - ReplacedTail(text));
  return text;
}

std::string Detokenizer::TakeWaiting() {
  std::string text;
  AppendValidUtf8(text, std::exchange(waiting_, {}));
  return text;
}

}  // namespace sluice::token
