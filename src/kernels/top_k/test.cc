#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/top_k/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::top_k {
namespace {

using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One call over rows of equal length `stride`.
struct Call {
  Floats scores;  // [n_rows, stride]
  std::vector<int64_t> n_visible;
  int32_t n_chosen = 0;
  Ids inside;  // empty: all entries
  bool with_candidates = false;
  int32_t n_blocks = 0;
  int32_t block_size = 0;
};

struct Choice {
  Ids chosen;
  Ids candidates;
};

Choice Choose(const Call& call, Stream& stream) {
  const auto n_rows = call.n_visible.size();
  const size_t stride = n_rows == 0 ? 0 : call.scores.size() / n_rows;
  Choice choice;
  choice.chosen.assign(n_rows * static_cast<size_t>(call.n_chosen), -7);
  choice.candidates.assign(n_rows * static_cast<size_t>(call.n_blocks), -7);
  Ids scratch(n_rows * stride);
  Run({.scores = call.scores.data(),
       .stride = static_cast<int64_t>(stride),
       .n_visible = call.n_visible.data(),
       .n_rows = static_cast<int64_t>(n_rows),
       .n_chosen = call.n_chosen,
       .chosen = choice.chosen.data(),
       .inside = call.inside.empty() ? nullptr : call.inside.data(),
       .candidates = call.with_candidates ? choice.candidates.data() : nullptr,
       .n_blocks = call.n_blocks,
       .block_size = call.block_size,
       .scratch = scratch.data()},
      stream);
  return choice;
}

Choice Choose(const Call& call) {
  ThreadTeam team(1);
  Stream stream{.team = team};
  return Choose(call, stream);
}

Ids ChooseOne(const Floats& scores, int32_t n_chosen) {
  return Choose({.scores = scores,
                 .n_visible = {static_cast<int64_t>(scores.size())},
                 .n_chosen = n_chosen})
      .chosen;
}

// The definition: sort all, take the first, sort by place.
Ids Best(const Floats& scores, int32_t n_chosen) {
  Ids order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float score_a = scores[static_cast<size_t>(a)];
    const float score_b = scores[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  });
  std::erase_if(order, [&](int32_t i) { return scores[static_cast<size_t>(i)] == -kInfinity; });
  order.resize(std::min(order.size(), static_cast<size_t>(n_chosen)));
  std::sort(order.begin(), order.end());
  order.resize(static_cast<size_t>(n_chosen), -1);
  return order;
}

Floats GoldenScores(const std::string& name) {
  const harness::GoldenTensor& tensor = harness::Tables()[name];
  Floats scores;
  for (int64_t i = 0; i < tensor.n_values(); ++i) scores.push_back(ToFloat(tensor.as<Bf16>()[i]));
  return scores;
}

Ids GoldenIds(const std::string& name) {
  const harness::GoldenTensor& tensor = harness::Tables()[name];
  return {tensor.as<int32_t>(), tensor.as<int32_t>() + tensor.n_values()};
}

// 20,001 entries, 2,048 of 2,501 blocks, the newest with one entry.
Call GoldenCall(const std::string& scores) {
  return {.scores = GoldenScores(scores),
          .n_visible = {20'001},
          .n_chosen = 512,
          .n_blocks = 2048,
          .block_size = 8};
}

TEST(TopK, ChoosesAsTheGolden) {
  EXPECT_EQ(Choose(GoldenCall("topk.scores")).chosen, GoldenIds("topk.selected512"));
}

TEST(TopK, KeepsTheCandidateBlocksOfTheGoldenAndChoosesInsideThem) {
  Call call = GoldenCall("topk.scores");
  call.with_candidates = true;
  const Choice first = Choose(call);
  EXPECT_EQ(first.chosen, GoldenIds("topk.selected512")) << "the source itself chooses among all";
  std::vector<uint8_t> mask(20'001, 0);
  for (const int32_t block : first.candidates) {
    ASSERT_GE(block, 0);
    for (int32_t i = block * 8; i < std::min(block * 8 + 8, 20'001); ++i) {
      mask[static_cast<size_t>(i)] = 1;
    }
  }
  const auto* want = harness::Tables()["topk.candidate_mask"].as<uint8_t>();
  EXPECT_TRUE(std::equal(mask.begin(), mask.end(), want));

  Call again = GoldenCall("topk.reindex_scores");
  again.inside = first.candidates;
  EXPECT_EQ(Choose(again).chosen, GoldenIds("topk.reindex_selected512"));
}

TEST(TopK, TiesGoToTheLowerEntry) {
  EXPECT_EQ(ChooseOne({1, 3, 2, 2, 2, 3}, 4), (Ids{1, 2, 3, 5}));
  EXPECT_EQ(ChooseOne(Floats(100, 0.5F), 3), (Ids{0, 1, 2}));
}

TEST(TopK, ZeroesOfEitherSignAreEqual) {
  EXPECT_EQ(ChooseOne({-0.0F, 0.0F, -1, 0.0F}, 2), (Ids{0, 1}));
  EXPECT_EQ(ChooseOne({-1, -0.0F, 1, 0.0F}, 2), (Ids{1, 2}));
}

TEST(TopK, MinusInfinityIsNeverChosen) {
  EXPECT_EQ(ChooseOne({-kInfinity, 1, -kInfinity, -5, kInfinity}, 4), (Ids{1, 3, 4, -1}));
  EXPECT_EQ(ChooseOne(Floats(9, -kInfinity), 2), (Ids{-1, -1}));
}

TEST(TopK, ChoosesAllWhenFewAreVisible) {
  EXPECT_EQ(ChooseOne({3, -1, 2}, 5), (Ids{0, 1, 2, -1, -1}));
  EXPECT_EQ(ChooseOne({3, -1, 2}, 3), (Ids{0, 1, 2}));
  EXPECT_EQ(Choose({.scores = {7}, .n_visible = {0}, .n_chosen = 2}).chosen, (Ids{-1, -1}));
}

TEST(TopK, EntriesBeyondTheVisibleOnesTakeNoPart) {
  EXPECT_EQ(Choose({.scores = {1, 2, 3, 99, 98}, .n_visible = {3}, .n_chosen = 2}).chosen,
            (Ids{1, 2}));
}

TEST(TopK, AgreesWithSortingEverything) {
  harness::Samples samples(31);
  for (int round = 0; round < 200; ++round) {
    const int32_t n = 1 + samples.Below(300);
    Floats scores = samples.Floats(n, 2);
    // Whole numbers make ties; the rest differ in low bits.
    if (round % 2 == 0) {
      for (float& score : scores) score = std::nearbyint(score);
    }
    for (int i = 0; i < round % 5; ++i) scores[static_cast<size_t>(samples.Below(n))] = -kInfinity;
    const int32_t n_chosen = 1 + samples.Below(n + 3);
    EXPECT_EQ(ChooseOne(scores, n_chosen), Best(scores, n_chosen)) << "round " << round;
  }
}

TEST(TopK, ChoosesFromAMillionEntries) {
  harness::Samples samples(32);
  Floats scores(1'048'576);
  for (float& score : scores) score = RoundToBf16(std::max(samples.Normal(3), 0.0F));
  EXPECT_EQ(ChooseOne(scores, 512), Best(scores, 512));
}

TEST(TopK, PinsTheNewestPartialBlock) {
  const Call call{.scores = {1, 1, 5, 5, 9, 9, -8},
                  .n_visible = {7},
                  .n_chosen = 1,
                  .with_candidates = true,
                  .n_blocks = 2,
                  .block_size = 2};
  EXPECT_EQ(Choose(call).candidates, (Ids{2, 3}));
}

TEST(TopK, TheNewestBlockIsThatOfTheNewestVisibleEntry) {
  const Call call{.scores = {9, 9, -5, -5, 7, 7, 8, 8},
                  .n_visible = {4},
                  .n_chosen = 1,
                  .with_candidates = true,
                  .n_blocks = 1,
                  .block_size = 2};
  EXPECT_EQ(Choose(call).candidates, (Ids{1}));
}

TEST(TopK, CandidateBlocksWithEqualMaximaGoToTheLowerBlock) {
  const Call call{.scores = {0, 3, 3, 0, 0, 3, 3, 3, 1},
                  .n_visible = {9},
                  .n_chosen = 1,
                  .with_candidates = true,
                  .n_blocks = 3,
                  .block_size = 2};
  EXPECT_EQ(Choose(call).candidates, (Ids{0, 1, 4}));
}

TEST(TopK, MoreBlocksThanVisibleKeepsAll) {
  Call call{.scores = {4, 1, 2, 3, 0},
            .n_visible = {5},
            .n_chosen = 9,
            .with_candidates = true,
            .n_blocks = 6,
            .block_size = 2};
  const Choice choice = Choose(call);
  EXPECT_EQ(choice.candidates, (Ids{0, 1, 2, -1, -1, -1}));
  EXPECT_EQ(choice.chosen, (Ids{0, 1, 2, 3, 4, -1, -1, -1, -1}));
  call.n_visible = {0};
  EXPECT_EQ(Choose(call).candidates, Ids(6, -1));
}

TEST(TopK, ABlockOfMaskedEntriesIsNoCandidateUnlessNewest) {
  const Call call{.scores = {-kInfinity, -kInfinity, 1, 1, -kInfinity},
                  .n_visible = {5},
                  .n_chosen = 1,
                  .with_candidates = true,
                  .n_blocks = 3,
                  .block_size = 2};
  EXPECT_EQ(Choose(call).candidates, (Ids{1, 2, -1}));
}

TEST(TopK, InsideBlocksMayHoldLessThanIsToBeChosen) {
  Call call{.scores = {9, 9, 9, 1, 2, 9, 9, 9, 5},
            .n_visible = {9},
            .n_chosen = 4,
            .inside = {1, 2, -1},
            .n_blocks = 3,
            .block_size = 4};
  call.inside = {2, -1, -1};
  EXPECT_EQ(Choose(call).chosen, (Ids{8, -1, -1, -1}));
  call.inside = {0, 2, -1};
  EXPECT_EQ(Choose(call).chosen, (Ids{0, 1, 2, 8}));
}

TEST(TopK, RowsAreIndependent) {
  constexpr int64_t kRows = 7;
  constexpr int64_t kStride = 50;
  harness::Samples samples(33);
  Floats scores = samples.Floats(kRows * kStride, 2);
  for (float& score : scores) score = std::nearbyint(score);
  const std::vector<int64_t> n_visible = {0, 1, 7, 24, 25, 49, 50};
  harness::ExpectRowsAreIndependent(
      kRows, Arithmetic::kFloat32, [&](int64_t first, int64_t n, Stream& stream) {
        const Call call{
            .scores = {scores.begin() + first * kStride, scores.begin() + (first + n) * kStride},
            .n_visible = {n_visible.begin() + first, n_visible.begin() + first + n},
            .n_chosen = 6,
            .with_candidates = true,
            .n_blocks = 6,
            .block_size = 4};
        const Choice choice = Choose(call, stream);
        std::vector<uint8_t> bytes;
        for (int64_t row = 0; row < n; ++row) {
          for (const Ids* ids : {&choice.chosen, &choice.candidates}) {
            harness::AppendBytes(Ids(ids->begin() + row * 6, ids->begin() + (row + 1) * 6), bytes);
          }
        }
        return bytes;
      });
}

}  // namespace
}  // namespace sluice::ops::top_k
