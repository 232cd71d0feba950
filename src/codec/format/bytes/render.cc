// hop 2 of 10: after ReadRequest, before Submit.
//
// Render makes the prompt's token ids of a Conversation. Pure functions; they run on the prep pool.

#include "codec/format/bytes/render.h"

namespace sluice::codec::bytes {
namespace {

// This vocabulary has no tokens for the beginning or for a hole: a suffix follows the text.
std::vector<TokenId> RenderRaw(const RawPrompt& raw) {
  if (!raw.ids.empty()) return raw.ids;
  std::vector<TokenId> prompt;
  for (char c : raw.text) prompt.push_back(TokenId(static_cast<uint8_t>(c)));
  for (char c : raw.suffix.value_or("")) prompt.push_back(TokenId(static_cast<uint8_t>(c)));
  return prompt;
}

}  // namespace

std::vector<TokenId> Render(const Conversation& conversation) {
  if (conversation.raw) return RenderRaw(*conversation.raw);
  std::vector<TokenId> prompt;
  prompt.reserve(static_cast<size_t>(CountTokens(conversation)));
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (i > 0) prompt.push_back(TokenId('\n'));
    for (char c : conversation.messages[i].text) prompt.push_back(TokenId(static_cast<uint8_t>(c)));
  }
  return prompt;
}

int64_t CountTokens(const Conversation& conversation) {
  if (conversation.raw) return std::ssize(RenderRaw(*conversation.raw));
  if (conversation.messages.empty()) return 0;
  int64_t n = static_cast<int64_t>(conversation.messages.size()) - 1;  // line feeds
  for (const Message& message : conversation.messages)
    n += static_cast<int64_t>(message.text.size());
  return n;
}

}  // namespace sluice::codec::bytes
