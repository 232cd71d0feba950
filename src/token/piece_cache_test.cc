#include "token/piece_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace sluice::token {
namespace {

std::vector<TokenId> Ids(std::initializer_list<int32_t> values) {
  std::vector<TokenId> ids;
  for (const int32_t value : values) ids.emplace_back(value);
  return ids;
}

std::vector<TokenId> Found(const PieceCache& cache, std::string_view piece) {
  std::vector<TokenId> out;
  const bool is_found = cache.Find(piece, out);
  EXPECT_EQ(is_found, !out.empty());
  return out;
}

TEST(PieceCache, FindsWhatWasKeptAndNothingElse) {
  PieceCache cache(7);
  EXPECT_TRUE(Found(cache, "kWords").empty());
  EXPECT_TRUE(Found(cache, "").empty());
  cache.Keep("kWords", Ids({0, 129'279}));
  EXPECT_EQ(Found(cache, "kWords"), Ids({0, 129'279}));
  EXPECT_TRUE(Found(cache, "kWord").empty());
  EXPECT_TRUE(Found(cache, std::string_view("kWords\0", 7)).empty());
  cache.Keep("kWords", Ids({5}));
  EXPECT_EQ(Found(cache, "kWords"), Ids({5}));
}

TEST(PieceCache, KeepsUpToItsLimits) {
  PieceCache cache(7);
  const std::string longest(PieceCache::kMaxPieceBytes, 'a');
  const std::vector<TokenId> most(PieceCache::kMaxTokens, TokenId(3));
  cache.Keep(longest, most);
  EXPECT_EQ(Found(cache, longest), most);
  cache.Keep(longest + "a", Ids({1}));
  EXPECT_TRUE(Found(cache, longest + "a").empty());
  cache.Keep("b", std::vector<TokenId>(PieceCache::kMaxTokens + 1, TokenId(3)));
  EXPECT_TRUE(Found(cache, "b").empty());
}

// More pieces than slots, from several threads: whatever is found is right.
TEST(PieceCache, ThreadsThatWriteOverEachOtherNeverFindAWrongPiece) {
  PieceCache cache(7);
  const auto work = [&cache](int32_t begin) {
    int32_t n_found = 0;
    std::vector<TokenId> out;
    for (int32_t round = 0; round < 3; ++round) {
      for (int32_t i = begin; i < 40'000; i += 3) {
        const std::string piece = fmt::format("piece {}", i);
        out.clear();
        if (cache.Find(piece, out)) {
          ++n_found;
          ASSERT_EQ(out, Ids({i, i + 1, i + 2}));
        }
        cache.Keep(piece, Ids({i, i + 1, i + 2}));
        out.clear();
        n_found += cache.Find(piece, out) ? 1 : 0;
      }
    }
    EXPECT_GT(n_found, 0);
  };
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < 4; ++i) threads.emplace_back(work, i % 3);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::token
