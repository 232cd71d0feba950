#include "kv/cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <optional>
#include <string>
#include <vector>

#include "base/random_test_impl.h"
#include "kv/window_cache.h"

namespace sluice::kv {
namespace {

// n tokens that differ from those of another `what`.
std::vector<TokenId> Tokens(int32_t what, int32_t n) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.emplace_back(what * 1000 + i);
  return tokens;
}

class CacheTest : public testing::Test {
 protected:
  std::optional<int32_t> Take(const std::vector<TokenId>& tokens, Lease& lease, bool first = true) {
    hit = cache.Take({.root = root,
                      .tokens = tokens,
                      .n_max = static_cast<int32_t>(tokens.size()) - 1,
                      .is_first = first},
                     lease, copy);
    return hit ? std::optional(hit->n_tokens) : std::nullopt;
  }
  // A sequence that came, ran all its tokens and went.
  void RunAndRelease(const std::vector<TokenId>& tokens) {
    Lease lease;
    Take(tokens, lease);
    cache.Grow(lease, static_cast<int32_t>(Layout::BlocksFor(std::ssize(tokens))));
    cache.Release(lease, tokens);
  }
  std::string Wrong(std::vector<const Lease*> leases = {}) const {
    return cache.CheckInvariants(leases);
  }

  Cache cache{{.n_blocks = 8}};
  const BlockKey root{};
  Cache::Copy copy;
  std::optional<Cache::Hit> hit;  // of the last Take
};

TEST_F(CacheTest, WhatIsReleasedIsFoundAgainWithThePartOfItsLastBlock) {
  RunAndRelease(Tokens(1, 150));
  EXPECT_EQ(cache.n_shared(), 3);
  EXPECT_EQ(cache.n_available(), 8);
  Lease lease;
  EXPECT_EQ(Take(Tokens(1, 151), lease), 150);
  EXPECT_EQ(copy.n_tokens, 22);
  EXPECT_NE(copy.from, copy.to);
  EXPECT_EQ(lease.blocks.size(), 3u);
  EXPECT_EQ(lease.blocks.back(), copy.to);
  EXPECT_EQ(cache.n_available(), 5) << "two are pinned and one is its own";
  EXPECT_EQ(Wrong({&lease}), "");
  cache.Release(lease, Tokens(1, 150));
  EXPECT_EQ(cache.n_available(), 8);
  EXPECT_EQ(Wrong(), "");
}

TEST_F(CacheTest, WhoeverDoesNotFitTakesNothing) {
  Lease big;
  Take(Tokens(1, 400), big);
  cache.Grow(big, 7);
  Lease other;
  EXPECT_EQ(Take(Tokens(2, 70), other, false), std::nullopt);
  EXPECT_TRUE(other.blocks.empty());
  EXPECT_EQ(Take(Tokens(2, 60), other, false), 0);
  EXPECT_EQ(Wrong({&big, &other}), "");
  cache.Release(big, {});
  EXPECT_EQ(cache.n_available(), 8);
}

TEST_F(CacheTest, AFullPoolDropsWhatWasUsedLongestAgo) {
  RunAndRelease(Tokens(1, 192));
  RunAndRelease(Tokens(2, 192));
  Lease lease;
  Take(Tokens(1, 193), lease);  // uses the first again
  cache.Grow(lease, 4);
  cache.Release(lease, Tokens(1, 193));
  RunAndRelease(Tokens(3, 192));
  EXPECT_EQ(cache.Look(root, Tokens(1, 192), 192), 192);
  EXPECT_LT(cache.Look(root, Tokens(2, 192), 192), 192);
  EXPECT_EQ(Wrong(), "");
}

TEST_F(CacheTest, AForkSharesFullBlocksAndCopiesTheLast) {
  Lease lease;
  const std::vector<TokenId> tokens = Tokens(1, 100);
  Take(tokens, lease);
  cache.Grow(lease, 2);
  cache.Seal(lease, tokens);
  Lease fork;
  ASSERT_TRUE(cache.Fork(lease, 100, fork, copy));
  EXPECT_EQ(fork.blocks[0], lease.blocks[0]);
  EXPECT_EQ(copy.from, lease.blocks[1]);
  EXPECT_EQ(copy.to, fork.blocks[1]);
  EXPECT_EQ(copy.n_tokens, 36);
  EXPECT_EQ(cache.n_available(), 5);
  EXPECT_EQ(Wrong({&lease, &fork}), "");
  cache.Release(lease, tokens);
  cache.Release(fork, tokens);
  EXPECT_EQ(cache.n_available(), 8);
  EXPECT_EQ(Wrong(), "");
}

TEST_F(CacheTest, WhatTwoComputeAtOnceIsSharedOnce) {
  Lease a;
  Lease b;
  const std::vector<TokenId> tokens = Tokens(1, 130);
  for (Lease* lease : {&a, &b}) {
    Take(tokens, *lease);
    cache.Grow(*lease, 3);
  }
  cache.Seal(a, tokens);
  cache.Seal(b, tokens);
  EXPECT_EQ(cache.n_shared(), 2);
  EXPECT_EQ(Wrong({&a, &b}), "");
  cache.Release(a, tokens);
  cache.Release(b, tokens);
  EXPECT_EQ(cache.n_shared(), 3);
  EXPECT_EQ(cache.n_available(), 8);
  EXPECT_EQ(Wrong(), "");
}

TEST_F(CacheTest, ABlockThatIsBeingSavedIsEvictedButNotReused) {
  RunAndRelease(Tokens(1, 64));
  RunAndRelease(Tokens(2, 128));
  const std::optional<Cache::Sealed> first = cache.NextSealed();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->parent, root);
  const std::optional<BlockId> block = cache.BeginSave(first->key);
  ASSERT_TRUE(block.has_value());
  EXPECT_FALSE(cache.BeginSave(first->key).has_value()) << "once at a time";
  const std::optional<Cache::Sealed> second = cache.NextSealed();
  EXPECT_EQ(second->parent, root);
  EXPECT_EQ(cache.NextSealed()->parent, second->key);
  EXPECT_FALSE(cache.NextSealed().has_value());
  EXPECT_EQ(cache.n_available(), 7);
  Lease lease;
  Take(Tokens(3, 7 * 64), lease);
  cache.Grow(lease, 7);  // evicts what was used longest ago first, which frees nothing
  EXPECT_EQ(std::ranges::count(lease.blocks, *block), 0);
  EXPECT_EQ(cache.n_available(), 0);
  EXPECT_TRUE(cache.WasEvicted(first->key));
  EXPECT_FALSE(cache.BeginSave(first->key).has_value()) << "it is gone";
  EXPECT_EQ(Wrong({&lease}), "");
  cache.EndSave(*block);
  EXPECT_EQ(cache.n_available(), 1);
  EXPECT_EQ(Wrong({&lease}), "");
  cache.Release(lease, {});
}

TEST_F(CacheTest, WhatATransferFilledIsSharedBehindWhatWasThere) {
  RunAndRelease(Tokens(1, 64));
  const std::vector<TokenId> tokens = Tokens(1, 300);
  const Cache::Start start{.root = root, .tokens = tokens, .n_max = 299, .is_first = true};
  Lease lease;
  std::vector<BlockId> blocks;
  ASSERT_TRUE(cache.Reserve(start, {.n_end = 4, .n_max = 8}, lease, blocks));
  EXPECT_EQ(lease.blocks.size(), 1u);
  EXPECT_EQ(blocks.size(), 3u);
  EXPECT_EQ(cache.n_available(), 4);
  const Lease* held[] = {&lease};
  EXPECT_EQ(cache.CheckInvariants(held, blocks), "");
  EXPECT_NE(cache.CheckInvariants(held), "") << "without the transfer's they are lost";
  while (cache.NextSealed()) {
  }
  cache.Settle(tokens, 2, lease, blocks);
  EXPECT_EQ(cache.Look(root, tokens, 299), 192);
  EXPECT_EQ(cache.n_available(), 8);
  EXPECT_EQ(cache.n_shared(), 3);
  EXPECT_FALSE(cache.NextSealed().has_value()) << "the store has them";
  EXPECT_EQ(Wrong(), "");

  Lease other;
  ASSERT_TRUE(cache.Reserve(start, {.n_end = 4, .n_max = 0}, other, blocks));
  EXPECT_TRUE(blocks.empty());
  cache.Settle(tokens, 0, other, blocks);
  Cache::Start crowded = start;
  crowded.is_first = false;
  crowded.n_spoken_for = 4;
  EXPECT_FALSE(cache.Reserve(crowded, {.n_end = 4, .n_max = 8}, other, blocks));
  EXPECT_EQ(Wrong(), "");
}

TEST_F(CacheTest, AHitTellsWhetherOthersWentOnDifferently) {
  RunAndRelease(Tokens(1, 150));
  std::vector<TokenId> parts = Tokens(1, 100);
  parts.resize(140, TokenId(7));
  Lease lease;
  Take(parts, lease);
  EXPECT_TRUE(hit->parts);
  cache.Release(lease, {});
  Take(Tokens(1, 170), lease);
  EXPECT_FALSE(hit->parts) << "it goes on";
  cache.Release(lease, {});
  Take(Tokens(1, 110), lease);
  EXPECT_FALSE(hit->parts) << "it ends before";
  cache.Release(lease, {});
  Take(Tokens(2, 100), lease);
  EXPECT_FALSE(hit->parts) << "another from its beginning on";
  cache.Release(lease, {});
}

TEST(EvictedKeys, RemembersTheLatestThatAreNotThereAgain) {
  const auto key = [](int i) { return BlockKey{.bytes = {static_cast<std::byte>(i)}}; };
  EvictedKeys keys(3);
  for (int i = 0; i < 3; ++i) keys.Add(key(i));
  EXPECT_TRUE(keys.Has(key(0)));
  keys.Remove(key(0));
  EXPECT_FALSE(keys.Has(key(0)));
  keys.Add(key(0));  // in the place of the first
  EXPECT_TRUE(keys.Has(key(0)));
  keys.Add(key(3));
  EXPECT_FALSE(keys.Has(key(1)));
  EXPECT_TRUE(keys.Has(key(0)) && keys.Has(key(2)) && keys.Has(key(3)));
  EvictedKeys none(0);
  none.Add(key(1));
  EXPECT_FALSE(none.Has(key(1)));
}

TEST_F(CacheTest, TheBooksAgreeWhateverHappens) {
  Random random;
  std::vector<Lease> leases(4);
  std::vector<std::vector<TokenId>> tokens(4);
  std::vector<size_t> n_stored(4, 0);
  for (int i = 0; i < 20'000; ++i) {
    const size_t at = random.Below(4);
    Lease& lease = leases[at];
    if (tokens[at].empty()) {
      tokens[at] = Tokens(static_cast<int32_t>(random.Below(5)),
                          1 + static_cast<int32_t>(random.Below(150)));
      const std::optional<int32_t> n = Take(tokens[at], lease, false);
      if (!n) tokens[at].clear();
      n_stored[at] = static_cast<size_t>(n.value_or(0));
    } else if (random.Below(3) > 0 && n_stored[at] < tokens[at].size()) {
      const size_t n_next = std::min(tokens[at].size(), n_stored[at] + 1 + random.Below(80));
      const int64_t n_more =
          Layout::BlocksFor(static_cast<int64_t>(n_next)) - std::ssize(lease.blocks);
      if (n_more > cache.n_available()) continue;
      cache.Grow(lease, static_cast<int32_t>(Layout::BlocksFor(static_cast<int64_t>(n_next))));
      n_stored[at] = n_next;
      cache.Seal(lease, std::span(tokens[at]).first(n_next));
    } else {
      cache.Release(lease, std::span(tokens[at]).first(n_stored[at]));
      tokens[at].clear();
    }
    ASSERT_EQ(Wrong({&leases[0], &leases[1], &leases[2], &leases[3]}), "") << i;
  }
}

TEST(WindowCache, ServesForTheTokensThatARingStillHolds) {
  WindowCache windows(3, 2);
  const BlockKey root{};
  const auto all = [](const WindowEntry&, int32_t) { return true; };
  WindowEntry* entry = windows.Keep(root, Tokens(1, 101));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->slot, SlotId(3));
  entry->n_least = 90;
  EXPECT_EQ(windows.Find(root, Tokens(1, 200), 199, all).n_tokens, 100) << "even";
  EXPECT_EQ(windows.Find(root, Tokens(1, 200), 91, all).n_tokens, 90);
  EXPECT_EQ(windows.Find(root, Tokens(1, 200), 89, all).entry, nullptr);
  EXPECT_EQ(windows.Find(root, Tokens(2, 200), 199, all).entry, nullptr);
  EXPECT_EQ(windows.Find(BlockKey{.bytes = {std::byte{1}}}, Tokens(1, 200), 199, all).entry,
            nullptr);
  EXPECT_EQ(windows.Find(root, Tokens(1, 200), 199, [](auto&, int32_t) { return false; }).entry,
            nullptr);
}

TEST(WindowCache, TheOneUsedLongestAgoMakesRoom) {
  WindowCache windows(0, 2);
  const BlockKey root{};
  const auto all = [](const WindowEntry&, int32_t) { return true; };
  windows.Keep(root, Tokens(1, 50));
  const SlotId second = windows.Keep(root, Tokens(2, 50))->slot;
  EXPECT_EQ(windows.Keep(root, Tokens(2, 50))->slot, second) << "the same again";
  EXPECT_NE(windows.Find(root, Tokens(1, 60), 59, all).entry, nullptr);
  EXPECT_EQ(windows.Keep(root, Tokens(3, 50))->slot, second);
  EXPECT_EQ(windows.Find(root, Tokens(2, 60), 59, all).entry, nullptr);
  EXPECT_EQ(windows.n_entries(), 2);
  EXPECT_EQ(WindowCache(0, 0).Keep(root, Tokens(1, 50)), nullptr);
}

}  // namespace
}  // namespace sluice::kv
