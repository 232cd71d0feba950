// The byte format's way in: the prompt is the text of all messages joined with line feeds, one
// token per byte (spec script-format.md). Pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"

namespace sluice::codec::bytes {

// Ids 0-255 are the bytes; the end token lies outside.
inline constexpr int32_t kVocabulary = 256;

// Tokens of the prompt, without making it: the context check comes first.
int64_t CountTokens(const Conversation& conversation);

std::vector<TokenId> Render(const Conversation& conversation);

}  // namespace sluice::codec::bytes
