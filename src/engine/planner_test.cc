#include "engine/planner.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

namespace sluice::engine {
namespace {

constexpr int32_t kPlenty = 1000;

PlanItem Prompt(int32_t slot, int32_t n, int32_t n_run = 0) {
  return {.slot = slot,
          .n_run = n_run,
          .n_known = n_run + n,
          .n_blocks = (n_run + 63) / 64,
          .is_decoding = false};
}
PlanItem Drawn(int32_t slot, int32_t n_run = 70) {
  return {.slot = slot,
          .n_run = n_run,
          .n_known = n_run + 1,
          .n_blocks = (n_run + 63) / 64,
          .is_decoding = true};
}

// (slot, rows, draws) of each part.
using Parts = std::vector<std::tuple<int32_t, int32_t, bool>>;
Parts PartsOf(const std::vector<PlanItem>& items, int32_t n_rows, int32_t n_blocks = kPlenty) {
  const StepPlan plan = Plan(items, {.n_prompt_rows = n_rows, .n_available_blocks = n_blocks});
  EXPECT_EQ(plan.victim, -1);
  Parts parts;
  for (const StepPlan::Part& part : plan.parts) {
    parts.emplace_back(part.slot, part.n_rows, part.draws);
  }
  return parts;
}
int32_t VictimOf(const std::vector<PlanItem>& items, int32_t n_blocks) {
  const StepPlan plan = Plan(items, {.n_prompt_rows = 64, .n_available_blocks = n_blocks});
  EXPECT_TRUE(plan.victim < 0 || plan.parts.empty());
  return plan.victim;
}

TEST(Planner, NothingPendingIsAnEmptyPlan) { EXPECT_EQ(PartsOf({}, 4), Parts()); }

TEST(Planner, EverybodyWhoDecodesGetsARowBesideThePrompts) {
  EXPECT_EQ(PartsOf({Prompt(3, 50), Drawn(1), Drawn(0)}, 10),
            (Parts{{1, 1, true}, {0, 1, true}, {3, 10, false}}));
}

TEST(Planner, WhoeverMayNotRunDoesNot) {
  PlanItem paused = Drawn(1);
  paused.may_run = false;
  EXPECT_EQ(PartsOf({paused, Prompt(2, 3)}, 10), (Parts{{2, 3, true}}));
}

TEST(Planner, AShortPromptDoesNotWaitForALongOneWhichMovesOnAllTheSame) {
  EXPECT_EQ(PartsOf({Prompt(0, 6000), Prompt(1, 10)}, 64), (Parts{{0, 54, false}, {1, 10, true}}));
  EXPECT_EQ(PartsOf({Prompt(0, 6000), Prompt(1, 900), Prompt(2, 20)}, 64),
            (Parts{{0, 32, false}, {1, 12, false}, {2, 20, true}}));
}

TEST(Planner, TheOldestPromptTakesHalfEvenOfOneRow) {
  EXPECT_EQ(PartsOf({Prompt(0, 9), Prompt(1, 2)}, 1), (Parts{{0, 1, false}}));
  EXPECT_EQ(PartsOf({Prompt(0, 9), Prompt(1, 2)}, 2), (Parts{{0, 1, false}, {1, 1, false}}));
}

TEST(Planner, APromptTakesTheRowsThatItsBlocksHold) {
  EXPECT_EQ(PartsOf({Prompt(0, 100)}, 128, 1), (Parts{{0, 64, false}}));
  EXPECT_EQ(PartsOf({Prompt(0, 100, 60)}, 128, 1), (Parts{{0, 68, false}}));
  EXPECT_EQ(PartsOf({Prompt(0, 100, 60)}, 128, 0), (Parts{{0, 4, false}}));
}

TEST(Planner, AFullPoolTakesFromTheYoungestThatHoldsSomething) {
  EXPECT_EQ(VictimOf({Drawn(4, 64), Drawn(5), Prompt(6, 8)}, 0), 5);
  EXPECT_EQ(VictimOf({Drawn(4, 64), Drawn(5, 64)}, 1), 5) << "itself, if it is the youngest";
  EXPECT_EQ(VictimOf({Prompt(4, 9, 64), Drawn(5, 70)}, 0), 5);
}

TEST(Planner, APromptTakesNothingFromOlderOnes) {
  EXPECT_EQ(PartsOf({Drawn(4, 70), Prompt(5, 9, 64)}, 64, 0), (Parts{{4, 1, true}}));
}

TEST(Planner, APausedSequenceGivesWayLikeAnother) {
  PlanItem paused = Drawn(5);
  paused.may_run = false;
  EXPECT_EQ(VictimOf({Drawn(4, 64), paused}, 0), 5);
}

// A prompt of n tokens whose first n_told scores were told.
PlanItem Scored(int32_t slot, int32_t n, int32_t n_run, int32_t n_told) {
  PlanItem item = Prompt(slot, n - n_run, n_run);
  item.n_scores = n - 1 - n_told;
  return item;
}

TEST(Planner, AScoredPromptStopsWhereTheStepHasNoMoreRowsWithLogits) {
  const StepLimits limits{.n_prompt_rows = 100, .n_scores = 10, .n_available_blocks = kPlenty};
  const auto rows_of = [&](const std::vector<PlanItem>& items) {
    std::vector<std::pair<int32_t, int32_t>> rows;  // rows, and how many of them have logits
    for (const StepPlan::Part& part : Plan(items, limits).parts) {
      rows.emplace_back(part.n_rows, part.n_logits);
    }
    return rows;
  };
  using Rows = std::vector<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(rows_of({Scored(0, 50, 0, 0)}), (Rows{{10, 10}}));
  EXPECT_EQ(rows_of({Scored(0, 50, 40, 40)}), (Rows{{10, 10}})) << "nine, and the row that draws";
  EXPECT_EQ(rows_of({Scored(0, 50, 39, 39)}), (Rows{{11, 11}}));
  EXPECT_EQ(rows_of({Scored(0, 50, 0, 30)}), (Rows{{40, 10}})) << "told before it gave way";
  EXPECT_EQ(rows_of({Scored(0, 5, 0, 0), Scored(1, 50, 0, 0), Prompt(2, 20)}),
            (Rows{{5, 5}, {6, 6}, {20, 1}}));
  EXPECT_EQ(rows_of({Scored(0, 50, 0, 0), Scored(1, 50, 0, 0)}), (Rows{{10, 10}}));
}

}  // namespace
}  // namespace sluice::engine
