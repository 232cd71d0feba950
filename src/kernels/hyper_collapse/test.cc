#include <gtest/gtest.h>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/hyper_collapse/op.h"

namespace sluice::ops::hyper_collapse {
namespace {

using harness::kBothArithmetics;
using harness::Samples;

std::vector<Bf16> Collapse(const std::vector<Bf16>& streams,
                           const float* mix,
                           int32_t n_streams,
                           int32_t n_columns) {
  ThreadTeam team(2);
  Stream stream{.team = team};
  const int64_t n_rows = static_cast<int64_t>(streams.size()) / n_streams / n_columns;
  std::vector<Bf16> out(static_cast<size_t>(n_rows * n_columns));
  hyper_collapse::Run({.streams = streams.data(),
                       .mix = mix,
                       .n_rows = n_rows,
                       .n_streams = n_streams,
                       .n_columns = n_columns,
                       .out = out.data(),
                       .out_stride = n_columns},
                      stream);
  return out;
}

TEST(HyperCollapse, StreamsAreAddedAscendingAndRoundedOnce) {
  constexpr size_t kColumns = 37;
  Samples samples(1);
  const std::vector<Bf16> streams = samples.Bf16s(4 * kColumns, 2);
  const std::vector<float> mix = samples.Floats(4);
  const std::vector<Bf16> got = Collapse(streams, mix.data(), 4, kColumns);
  for (size_t column = 0; column < kColumns; ++column) {
    float total = mix[0] * ToFloat(streams[column]);
    for (size_t i = 1; i < 4; ++i) total = total + mix[i] * ToFloat(streams[i * kColumns + column]);
    EXPECT_EQ(got[column], ToBf16(total));
  }
}

TEST(HyperCollapse, TheFirstMixTakesTheFirstStreamAsItIs) {
  Samples samples(2);
  const std::vector<Bf16> streams = samples.Bf16s(4 * 8);
  const float mix[] = {1, 0, 0, 0};  // of every token before the first layer
  EXPECT_EQ(Collapse(streams, mix, 4, 8), std::vector<Bf16>(streams.begin(), streams.begin() + 8));
}

TEST(HyperCollapse, ATapIsTheSumDivided) {
  // Three streams: a third is no float, so a product with it would round differently.
  const std::vector<Bf16> streams = {ToBf16(1), ToBf16(5), ToBf16(1),
                                     ToBf16(5), ToBf16(1), ToBf16(5.5F)};
  const std::vector<Bf16> got = Collapse(streams, nullptr, 3, 2);
  EXPECT_EQ(ToFloat(got[0]), 1.0F);
  EXPECT_EQ(got[1], ToBf16(15.5F / 3.0F));
}

TEST(HyperCollapse, RowsAreIndependent) {
  constexpr int64_t kRows = 6;
  constexpr int64_t kColumns = 33;
  Samples samples(3);
  const std::vector<Bf16> streams = samples.Bf16s(kRows * 4 * kColumns);
  const std::vector<float> mix = samples.Floats(kRows * 4);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    for (const bool is_tap : {false, true}) {
      harness::ExpectRowsAreIndependent(
          kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
            std::vector<Bf16> out(static_cast<size_t>(n * kColumns));
            hyper_collapse::Run({.streams = streams.data() + first * 4 * kColumns,
                                 .mix = is_tap ? nullptr : mix.data() + first * 4,
                                 .n_rows = n,
                                 .n_streams = 4,
                                 .n_columns = kColumns,
                                 .out = out.data(),
                                 .out_stride = kColumns},
                                stream);
            return harness::BytesOf(out);
          });
    }
  }
}

}  // namespace
}  // namespace sluice::ops::hyper_collapse
