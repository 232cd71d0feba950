// BlockKey: the name of the KV rows of a block of tokens together with everything before them (spec
// kv-cache.md §4.2). Chained: a block's key holds its parent's, so equal keys mean equal prefixes.
// The root is keyed with a secret and names all that rows depend on besides tokens, so keys of
// different tenants, weights or layouts never meet, and names tell nothing about texts. Pure
// functions.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/ids.h"
#include "kv/layout.h"

namespace sluice::kv {

struct BlockKey {
  std::array<std::byte, 32> bytes{};
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

// What the rows of a prefix depend on besides its tokens.
struct KeySpace {
  std::string_view weights_revision;
  std::string_view replay_mode;  // "exact", "bounded": whether rows may depend on earlier hits
  std::string_view name_space;   // of the tenant, made on the server; its cache salt behind it
};

// The parent of a sequence's first block.
BlockKey RootKey(ConstBytes secret, const Layout& layout, const KeySpace& space);

// The key of the block that holds these tokens behind `parent`. `extra`: of the images that overlap
// it; empty: none do. tokens: kBlockTokens of them.
BlockKey ChildKey(const BlockKey& parent, std::span<const TokenId> tokens, ConstBytes extra = {});

// Of a block's shape: sizes, order and names of its components.
std::array<std::byte, 32> DigestOf(const Layout& layout);

}  // namespace sluice::kv
