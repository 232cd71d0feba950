#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kv/block_pool.h"

namespace sluice::kv {
namespace {

using Tokens = std::vector<TokenId>;

BlockKey KeyOf(char c) {
  BlockKey key;
  key.bytes.fill(static_cast<std::byte>(c));
  return key;
}

// n tokens, all of them `value`, then those of `tail`.
Tokens Filled(int32_t value, size_t n, const std::vector<int32_t>& tail = {}) {
  Tokens tokens(n, TokenId(value));
  for (const int32_t t : tail) tokens.emplace_back(t);
  return tokens;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const BlockKey kRoot = KeyOf('r');

TEST(PrefixIndex, FindsTheLongestWholePrefix) {
  PrefixIndex index;
  EXPECT_EQ(index.Find(kRoot, Filled(1, 200), 200).n_tokens(), 0);
  const NodeId first = index.Insert(kRoot, PrefixIndex::kNone, Filled(1, 64), BlockId(7));
  const NodeId second = index.Insert(kRoot, first, Filled(2, 64), BlockId(8));
  const PrefixIndex::Match match =
      index.Find(kRoot, Filled(1, 64) + Filled(2, 64) + Filled(3, 64), 200);
  EXPECT_EQ(match.node, second);
  EXPECT_EQ(match.n_full, 128);
  EXPECT_EQ(match.n_partial, 0);
  EXPECT_EQ(index.BlocksOf(second), (std::vector<BlockId>{BlockId(7), BlockId(8)}));
  // The second block alone is no prefix.
  EXPECT_EQ(index.Find(kRoot, Filled(2, 64), 64).n_tokens(), 0);
  EXPECT_EQ(index.Find(KeyOf('s'), Filled(1, 64), 64).n_tokens(), 0);
}

TEST(PrefixIndex, MatchesPartOfABlockInEvenNumbers) {
  PrefixIndex index;
  const NodeId first = index.Insert(kRoot, PrefixIndex::kNone, Filled(1, 64), BlockId(0));
  const NodeId part = index.Insert(kRoot, first, Filled(2, 9), BlockId(1));
  PrefixIndex::Match match = index.Find(kRoot, Filled(1, 64) + Filled(2, 30), 94);
  EXPECT_EQ(match.n_full, 64);
  EXPECT_EQ(match.partial, part);
  EXPECT_EQ(match.n_partial, 8);
  // Of a full block, too; and not beyond what may be used.
  match = index.Find(kRoot, Filled(1, 64), 63);
  EXPECT_EQ(match.n_full, 0);
  EXPECT_EQ(match.partial, first);
  EXPECT_EQ(match.n_partial, 62);
}

TEST(PrefixIndex, AFullerBlockReplacesThePartThatItGoesOnFrom) {
  PrefixIndex index;
  index.Insert(kRoot, PrefixIndex::kNone, Filled(2, 9), BlockId(1));
  index.Insert(kRoot, PrefixIndex::kNone, Filled(2, 8, {5}), BlockId(2));
  EXPECT_TRUE(index.HasChild(kRoot, PrefixIndex::kNone, Filled(2, 7)));
  EXPECT_FALSE(index.HasChild(kRoot, PrefixIndex::kNone, Filled(2, 10)));
  index.Insert(kRoot, PrefixIndex::kNone, Filled(2, 64), BlockId(3));
  ASSERT_EQ(index.dropped().size(), 1u);
  EXPECT_EQ(index.dropped()[0], BlockId(1));
  EXPECT_EQ(index.n_evictable(), 3);
  EXPECT_EQ(index.Evict().block, BlockId(1));
}

TEST(PrefixIndex, EvictsLeavesLeastRecentlyUsedFirst) {
  PrefixIndex index;
  const NodeId a = index.Insert(kRoot, PrefixIndex::kNone, Filled(1, 64), BlockId(0));
  index.Insert(kRoot, a, Filled(2, 64), BlockId(1));
  index.Insert(kRoot, PrefixIndex::kNone, Filled(3, 64), BlockId(2));
  index.Find(kRoot, Filled(1, 64) + Filled(2, 64), 128);
  EXPECT_EQ(index.Evict().block, BlockId(2));
  EXPECT_EQ(index.Evict().block, BlockId(1));
  EXPECT_EQ(index.Evict().block, BlockId(0));
  EXPECT_EQ(index.n_blocks(), 0);
  EXPECT_EQ(index.Find(kRoot, Filled(1, 64), 64).n_tokens(), 0);
}

TEST(PrefixIndex, APinKeepsANodeAndWhatIsBeforeIt) {
  PrefixIndex index;
  const NodeId a = index.Insert(kRoot, PrefixIndex::kNone, Filled(1, 64), BlockId(0));
  const NodeId b = index.Insert(kRoot, a, Filled(2, 64), BlockId(1));
  index.Insert(kRoot, b, Filled(3, 64), BlockId(2));
  index.Pin(b);
  index.Pin(b);
  EXPECT_EQ(index.n_evictable(), 1);
  EXPECT_EQ(index.Evict().block, BlockId(2));
  index.Unpin(b);
  EXPECT_EQ(index.n_evictable(), 0);
  index.Unpin(b);
  EXPECT_EQ(index.n_evictable(), 2);
  EXPECT_EQ(index.Evict().block, BlockId(1));
}

// Against lists of what was put in: random chains of few different blocks, pins and evictions.
TEST(PrefixIndex, RandomUseKeepsEveryBlockOnce) {
  constexpr int32_t kBlocks = 24;
  constexpr uint64_t kSteps = 20'000;
  PrefixIndex index;
  BlockPool pool(kBlocks);
  std::map<std::vector<int32_t>, NodeId> there;  // by the values of its blocks
  std::vector<NodeId> pins;
  uint64_t position = 0;
  const auto below = [&](uint64_t n) {
    return RandomBits({.seed = 5, .position = position++}) % n;
  };
  for (uint64_t step = 0; step < kSteps; ++step) {
    const uint64_t what = below(10);
    if (what < 6) {  // a chain of up to four blocks of three kinds
      Tokens tokens;
      std::vector<int32_t> values;
      NodeId parent = PrefixIndex::kNone;
      for (uint64_t n = 1 + below(4); n > 0; --n) {
        values.push_back(static_cast<int32_t>(below(3)));
        const Tokens block = Filled(values.back(), 64);
        tokens = tokens + block;
        const PrefixIndex::Match match = index.Find(kRoot, tokens, 1'000);
        const bool is_there = match.n_full == std::ssize(tokens);
        ASSERT_EQ(is_there, there.contains(values));
        if (is_there) {
          ASSERT_EQ(match.node, there[values]);
          parent = match.node;
          continue;
        }
        if (parent != PrefixIndex::kNone) index.Pin(parent);  // or room is made at its cost
        const bool has_room = pool.n_free() + index.n_evictable() > 0;
        if (has_room && pool.n_free() == 0) {
          pool.GiveBack(index.Evict().block);
          std::map<NodeId, BlockId> left;
          for (const PrefixIndex::View& view : index.nodes()) left[view.node] = view.block;
          std::erase_if(there, [&](const auto& entry) { return !left.contains(entry.second); });
        }
        if (has_room) {
          const NodeId node = index.Insert(kRoot, parent, block, pool.Take());
          there[values] = node;
        }
        if (parent != PrefixIndex::kNone) index.Unpin(parent);
        if (!has_room) break;
        parent = there[values];
      }
    } else if (what < 8 && !there.empty() && pins.size() < 6) {
      auto at = there.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(below(there.size())));
      index.Pin(at->second);
      pins.push_back(at->second);
    } else if (!pins.empty()) {
      const size_t i = below(pins.size());
      index.Unpin(pins[i]);
      pins.erase(pins.begin() + static_cast<std::ptrdiff_t>(i));
    }
    ASSERT_EQ(pool.n_free() + index.n_blocks(), kBlocks);
    ASSERT_EQ(std::ssize(index.nodes()), index.n_blocks());
    ASSERT_EQ(std::ssize(there), index.n_blocks());
    std::vector<int> holders(kBlocks);
    for (const PrefixIndex::View& view : index.nodes()) {
      ++holders[static_cast<size_t>(view.block.value)];
    }
    for (const BlockId block : pool.free()) ++holders[static_cast<size_t>(block.value)];
    ASSERT_EQ(holders, std::vector<int>(kBlocks, 1));
  }
  for (const NodeId pin : pins) index.Unpin(pin);
  EXPECT_EQ(index.n_evictable(), index.n_blocks());
}

TEST(BlockKey, S15NamesEverythingThatRowsDependOn) {
  const Layout layout{.block_components = {{.name = "a", .row_bytes = 8, .tokens_per_row = 2}}};
  const Layout other{.block_components = {{.name = "a", .row_bytes = 8, .tokens_per_row = 1}}};
  const std::string secret = "secret", wrong = "Secret";
  const KeySpace space{.weights_revision = "1017", .replay_mode = "exact", .name_space = "t1"};
  const BlockKey root = RootKey(std::as_bytes(std::span(secret)), layout, space);
  const auto differs = [&](const std::string& s, const Layout& l, const KeySpace& k) {
    return RootKey(std::as_bytes(std::span(s)), l, k) != root;
  };
  EXPECT_FALSE(differs(secret, layout, space));
  EXPECT_TRUE(differs(wrong, layout, space));
  EXPECT_TRUE(differs(secret, other, space));
  EXPECT_TRUE(differs(secret, layout, {"0910", "exact", "t1"}));
  EXPECT_TRUE(differs(secret, layout, {"1017", "bounded", "t1"}));
  EXPECT_TRUE(differs(secret, layout, {"1017", "exact", "t2"}));
  EXPECT_TRUE(differs(secret, layout, {"1017", "exactt", "1"}));

  Tokens tokens = Filled(1, 64);
  const BlockKey key = ChildKey(root, tokens);
  EXPECT_NE(ChildKey(key, tokens), key);
  EXPECT_NE(ChildKey(root, tokens, std::as_bytes(std::span(secret))), key);
  tokens[63] = TokenId(2);
  EXPECT_NE(ChildKey(root, tokens), key);
}

// Keys are whole SHA-256 sums under a secret: nobody can look for two that meet, and by accident
// 2^64 blocks would be needed for a chance of 2^-129.
TEST(BlockKey, S15KeysAreWholeSumsUnderASecret) {
  static_assert(sizeof(BlockKey) == 32);
  const Layout layout{.block_components = {{.name = "a", .row_bytes = 8}}};
  const auto key_under = [&](const std::string& secret) {
    return ChildKey(RootKey(std::as_bytes(std::span(secret)), layout, {}), Filled(1, 64));
  };
  const BlockKey one = key_under("one"), two = key_under("two");
  int n_equal = 0;
  for (size_t i = 0; i < one.bytes.size(); ++i) n_equal += one.bytes[i] == two.bytes[i] ? 1 : 0;
  EXPECT_LT(n_equal, 4);
}

// Also if keys met: a hit is a comparison of tokens.
TEST(PrefixIndex, S15AHitIsComparedTokenByToken) {
  PrefixIndex index;
  const Tokens first = Filled(1, 64);
  index.Insert(kRoot, PrefixIndex::kNone, first, BlockId(0));
  EXPECT_EQ(index.Find(kRoot, first + Filled(2, 1), 65).n_tokens(), 64);
  for (const size_t at : {size_t{0}, size_t{31}, size_t{63}}) {
    Tokens other = first;
    other[at] = TokenId(9);
    const int32_t n_shared = static_cast<int32_t>(at) / 2 * 2;
    EXPECT_EQ(index.Find(kRoot, other + Filled(2, 1), 65).n_tokens(), n_shared);
  }
}

}  // namespace
}  // namespace sluice::kv
