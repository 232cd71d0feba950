#include <gtest/gtest.h>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/hyper_expand/op.h"

namespace sluice::ops::hyper_expand {
namespace {

using harness::kBothArithmetics;
using harness::Samples;

TEST(HyperExpand, SourcesAreSummedFirstAndThenTheOutputIsAdded) {
  constexpr size_t kStreams = 4;
  constexpr size_t kColumns = 29;
  Samples samples(1);
  const std::vector<Bf16> before = samples.Bf16s(kStreams * kColumns, 2);
  const std::vector<Bf16> y = samples.Bf16s(kColumns, 2);
  const std::vector<float> post = samples.Floats(kStreams);
  const std::vector<float> comb = samples.Floats(kStreams * kStreams);
  std::vector<Bf16> streams = before;
  ThreadTeam team(1);
  Stream stream{.team = team};
  hyper_expand::Run({.y = y.data(),
                     .streams = streams.data(),
                     .post = post.data(),
                     .comb = comb.data(),
                     .n_rows = 1,
                     .n_streams = kStreams,
                     .n_columns = kColumns},
                    stream);
  for (size_t j = 0; j < kStreams; ++j) {
    for (size_t column = 0; column < kColumns; ++column) {
      float mixed = comb[j] * ToFloat(before[column]);
      for (size_t i = 1; i < kStreams; ++i) {
        mixed = mixed + comb[i * kStreams + j] * ToFloat(before[i * kColumns + column]);
      }
      EXPECT_EQ(streams[j * kColumns + column], ToBf16(post[j] * ToFloat(y[column]) + mixed));
    }
  }
}

// spec model.md §7.3, 20
TEST(HyperExpand, CombIsSourceByDestinationNotTransposed) {
  std::vector<Bf16> streams = {ToBf16(1), ToBf16(10)};
  const Bf16 y = ToBf16(0);
  const float post[] = {0, 0};
  const float comb[] = {0, 1, 0, 0};  // what stream 0 holds goes to stream 1
  ThreadTeam team(1);
  Stream stream{.team = team};
  hyper_expand::Run({.y = &y,
                     .streams = streams.data(),
                     .post = post,
                     .comb = comb,
                     .n_rows = 1,
                     .n_streams = 2,
                     .n_columns = 1},
                    stream);
  EXPECT_EQ(ToFloat(streams[0]), 0.0F);
  EXPECT_EQ(ToFloat(streams[1]), 1.0F);
}

TEST(HyperExpand, RowsAreIndependent) {
  constexpr int64_t kRows = 6;
  constexpr int64_t kColumns = 33;
  constexpr int64_t kRowValues = 4 * kColumns;
  Samples samples(3);
  const std::vector<Bf16> before = samples.Bf16s(kRows * kRowValues);
  const std::vector<Bf16> y = samples.Bf16s(kRows * kColumns);
  const std::vector<float> post = samples.Floats(kRows * 4);
  const std::vector<float> comb = samples.Floats(kRows * 16);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    harness::ExpectRowsAreIndependent(
        kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
          std::vector<Bf16> streams(before.begin() + first * kRowValues,
                                    before.begin() + (first + n) * kRowValues);
          hyper_expand::Run({.y = y.data() + first * kColumns,
                             .streams = streams.data(),
                             .post = post.data() + first * 4,
                             .comb = comb.data() + first * 16,
                             .n_rows = n,
                             .n_streams = 4,
                             .n_columns = kColumns},
                            stream);
          return harness::BytesOf(streams);
        });
  }
}

}  // namespace
}  // namespace sluice::ops::hyper_expand
