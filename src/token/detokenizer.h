// Detokenizer: token ids to text, as they come. What is given out is always whole characters: bytes
// that end inside a character wait for the next token.
//
// As the reference does (spec recipe.md §10; its golden cases): what is not UTF-8 becomes U+FFFD,
// and text that ends with U+FFFD waits, all of it, since more bytes may make it good. The texts of
// one stream joined do not depend on how its tokens are cut into calls. Owned by one thread. The
// vocabulary must outlive it.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "token/vocabulary.h"

namespace sluice::token {

class Detokenizer {
 public:
  explicit Detokenizer(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Appends the texts that are ready after these tokens, none of them empty: the spelling of an
  // added token is one of its own, and brings out what waits before it.
  void Push(std::span<const TokenId> tokens, std::vector<std::string>& texts);

  // Ends the stream: what waits, without the U+FFFD at its end. May be empty.
  std::string Finish();

 private:
  std::string TakeWaiting();

  const Vocabulary& vocabulary_;
  std::string waiting_;  // characters, then perhaps a part of one
};

}  // namespace sluice::token
