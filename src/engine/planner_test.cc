#include "engine/planner.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace sluice::engine {
namespace {

const std::vector<TokenId> kTokens(100, TokenId(7));

Pending Prompt(int32_t slot, size_t n) {
  return {.slot = slot, .tokens = std::span(kTokens).first(n), .is_prompt = true};
}
Pending Drawn(int32_t slot) {
  return {.slot = slot, .tokens = std::span(kTokens).first(1), .is_prompt = false};
}
// (slot, rows, draws) of each part.
std::vector<std::tuple<int32_t, size_t, bool>> PartsOf(const std::vector<Pending>& pending,
                                                       int32_t n_rows) {
  std::vector<std::tuple<int32_t, size_t, bool>> parts;
  for (const StepPlan::Part& part : Plan(pending, n_rows).parts) {
    parts.emplace_back(part.slot, part.tokens.size(), part.draws);
  }
  return parts;
}
using Parts = std::vector<std::tuple<int32_t, size_t, bool>>;

TEST(Planner, NothingPendingIsAnEmptyPlan) { EXPECT_TRUE(Plan({}, 4).parts.empty()); }

TEST(Planner, DrawnTokensGoBeforePromptsOfEarlierArrival) {
  EXPECT_EQ(PartsOf({Prompt(3, 50), Drawn(1), Drawn(0)}, 10),
            (Parts{{1, 1, true}, {0, 1, true}, {3, 8, false}}));
}

TEST(Planner, PromptsShareWhatIsLeftInOrder) {
  EXPECT_EQ(PartsOf({Prompt(0, 4), Prompt(1, 4), Prompt(2, 4)}, 6),
            (Parts{{0, 4, true}, {1, 2, false}}));
}

TEST(Planner, ALastPieceOfOneTokenIsStillAPrompt) {
  EXPECT_EQ(PartsOf({Prompt(0, 5), Prompt(1, 1)}, 5), (Parts{{0, 5, true}}));
  EXPECT_EQ(PartsOf({Prompt(0, 5), Prompt(1, 1)}, 6), (Parts{{0, 5, true}, {1, 1, true}}));
}

}  // namespace
}  // namespace sluice::engine
