#include "kv/block_key.h"

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/sha256.h"

namespace sluice::kv {
namespace {

// Length before text: no two lists of fields give the same bytes.
void AddField(std::string_view text, std::vector<std::byte>& out) {
  const uint64_t n = text.size();
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(n >> shift));
  const ConstBytes bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::array<std::byte, 32> DigestOf(const Layout& layout) {
  std::vector<std::byte> text;
  AddField("sluice kv layout 1", text);
  AddField(std::to_string(kBlockTokens), text);
  for (const BlockComponent& component : layout.block_components) {
    AddField(component.name, text);
    AddField(std::to_string(component.row_bytes), text);
    AddField(std::to_string(component.tokens_per_row), text);
  }
  AddField("slots", text);
  for (const SlotComponent& component : layout.slot_components) {
    AddField(component.name, text);
    AddField(std::to_string(component.row_bytes), text);
    AddField(std::to_string(component.n_rows), text);
  }
  return Sha256(text);
}

BlockKey RootKey(ConstBytes secret, const Layout& layout, const KeySpace& space) {
  std::vector<std::byte> message;
  AddField("sluice kv key 1", message);
  const std::array<std::byte, 32> digest = DigestOf(layout);
  message.insert(message.end(), digest.begin(), digest.end());
  AddField(space.weights_revision, message);
  AddField(space.replay_mode, message);
  AddField(space.name_space, message);
  return {HmacSha256(secret, message)};
}

BlockKey ChildKey(const BlockKey& parent, std::span<const TokenId> tokens, ConstBytes extra) {
  static_assert(sizeof(TokenId) == 4);
  SLUICE_CHECK(std::ssize(tokens) == kBlockTokens);
  std::array<std::byte, 32 + 4 * kBlockTokens> fixed;
  std::memcpy(fixed.data(), parent.bytes.data(), parent.bytes.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<uint32_t>(tokens[i].value);
    for (size_t b = 0; b < 4; ++b) {
      fixed[32 + 4 * i + b] = static_cast<std::byte>(id >> (8 * b));
    }
  }
  if (extra.empty()) return {Sha256(fixed)};
  std::vector<std::byte> message(fixed.begin(), fixed.end());
  message.insert(message.end(), extra.begin(), extra.end());
  return {Sha256(message)};
}

}  // namespace sluice::kv
