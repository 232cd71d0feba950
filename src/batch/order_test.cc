#include "batch/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::batch {
namespace {

using Prompt = std::vector<TokenId>;

// `n` tokens that `seed` chooses.
void Append(Prompt& prompt, int32_t n, uint32_t seed) {
  for (int32_t i = 0; i < n; ++i) {
    seed = seed * 1'664'525 + 1'013'904'223;
    prompt.emplace_back(static_cast<int32_t>(seed >> 16));
  }
}

// A beginning of `n_shared` tokens of its group, then tokens of its own.
Prompt Make(int32_t n_shared, uint32_t group, int32_t n_own, uint32_t own) {
  Prompt prompt;
  Append(prompt, n_shared, group);
  Append(prompt, n_own, own + 1'000);
  return prompt;
}

TEST(BatchOrder, PromptsThatBeginAlikeStandTogether) {
  struct Row {
    PrefixKey key;
    uint32_t group;
  };
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 300; ++i) {
    const uint32_t group = i * 7 % 10;
    rows.push_back({KeyOf(Make(70, group, static_cast<int32_t>(i % 40), i)), group});
  }
  std::ranges::sort(rows, {}, &Row::key);
  int n_changes = 0;
  for (size_t i = 1; i < rows.size(); ++i) n_changes += rows[i].group != rows[i - 1].group ? 1 : 0;
  EXPECT_EQ(n_changes, 9);
}

// Half of the rows share 64 tokens, and of those pairs share 5,000.
TEST(BatchOrder, WithinAGroupThoseStandTogetherThatShareMore) {
  struct Row {
    PrefixKey key;
    uint32_t pair;
  };
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 64; ++i) {
    Prompt prompt = Make(64, 1, 0, 0);
    Append(prompt, 5'000, i % 32 + 50);
    Append(prompt, 10, i + 900);
    rows.push_back({KeyOf(prompt), i % 32});
  }
  std::ranges::sort(rows, {}, &Row::key);
  for (size_t i = 0; i < rows.size(); i += 2) EXPECT_EQ(rows[i].pair, rows[i + 1].pair);
}

TEST(BatchOrder, AShorterPromptComesBeforeThoseThatGoOnFromIt) {
  const Prompt longer = Make(200, 1, 0, 0);
  const Prompt shorter(longer.begin(), longer.begin() + 150);
  EXPECT_LT(KeyOf(shorter), KeyOf(longer));
  EXPECT_EQ(KeyOf({}), PrefixKey());
  EXPECT_EQ(KeyOf(Prompt(63)), PrefixKey());
}

TEST(BatchOrder, AKeyIsOfTheWholeBeginning) {
  Prompt prompt = Make(64, 1, 0, 0);
  const PrefixKey key = KeyOf(prompt);
  prompt[0] = TokenId(prompt[0].value + 1);
  EXPECT_NE(KeyOf(prompt), key);
}

}  // namespace
}  // namespace sluice::batch
