#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/harness/stored_rows_test_impl.h"
#include "kernels/index_score/op.h"

namespace sluice::ops::index_score {
namespace {

using Floats = std::vector<float>;

constexpr GroupFormat kFormat = GroupFormat::kFp4Mx;
constexpr float kUnwritten = -12345;

// Rows of one sequence: queries, head weights and stored keys.
struct Operands {
  int32_t n_heads = 0;
  int32_t head_dim = 0;
  std::vector<Bf16> q;        // [n_rows, n_heads, head_dim]
  std::vector<Bf16> weights;  // [n_rows, n_heads]
  std::vector<uint8_t> keys;  // stored, [n_keys]
  std::vector<int64_t> n_visible;
};

Operands Random(int32_t n_heads, int32_t head_dim, std::vector<int64_t> n_visible) {
  harness::Samples samples(41);
  const auto n_rows = static_cast<int64_t>(n_visible.size());
  Operands in{.n_heads = n_heads, .head_dim = head_dim, .n_visible = std::move(n_visible)};
  const std::vector<uint8_t> q = harness::StoredRows(kFormat, n_rows * n_heads, head_dim, samples);
  for (int64_t i = 0; i < n_rows * n_heads; ++i) {
    const uint8_t* stored = q.data() + i * RowBytes(kFormat, head_dim);
    for (const float value : harness::ValuesOf(kFormat, stored, head_dim)) {
      in.q.push_back(ToBf16(value));
    }
  }
  in.weights = samples.Bf16s(n_rows * n_heads, 0.1F);
  const int64_t n_keys = *std::max_element(in.n_visible.begin(), in.n_visible.end());
  in.keys = harness::StoredRows(kFormat, n_keys, head_dim, samples);
  return in;
}

// Scores of the rows [first, first + n), [n, stride].
Floats Score(const Operands& in, const PagedRows& keys, int64_t first, int64_t n, Stream& stream) {
  std::vector<Row> rows;
  for (int64_t row = first; row < first + n; ++row) {
    rows.push_back({.keys = keys, .n_visible = in.n_visible[static_cast<size_t>(row)]});
  }
  const int64_t stride = *std::max_element(in.n_visible.begin(), in.n_visible.end()) + 3;
  Floats scores(static_cast<size_t>(n * stride), kUnwritten);
  Run({.q = in.q.data() + first * in.n_heads * in.head_dim,
       .weights = in.weights.data() + first * in.n_heads,
       .rows = rows.data(),
       .n_rows = n,
       .n_heads = in.n_heads,
       .head_dim = in.head_dim,
       .scores = scores.data(),
       .stride = stride},
      stream);
  return scores;
}

Floats Score(const Operands& in, Arithmetic arithmetic, uint64_t shuffle = 1) {
  const harness::PagedPool pool =
      harness::MakePagedPool(in.keys, RowBytes(kFormat, in.head_dim), 4, shuffle);
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = arithmetic};
  return Score(in, pool.rows, 0, static_cast<int64_t>(in.n_visible.size()), stream);
}

// Where the formula rounds; a mistake leaves one out or takes the weight before the relu.
struct Formula {
  bool rounds_dot = true;
  bool rounds_product = true;
  bool rounds_sum = true;
  bool relu_first = true;
};

float MaybeBf16(float x, bool rounds) { return rounds ? RoundToBf16(x) : x; }

// The definition, one score by itself.
float ScoreOf(const Operands& in,
              size_t row,
              size_t key,
              Arithmetic arithmetic,
              const Formula& formula = {}) {
  const auto head_dim = static_cast<size_t>(in.head_dim);
  const auto n_heads = static_cast<size_t>(in.n_heads);
  const auto row_bytes = static_cast<size_t>(RowBytes(kFormat, in.head_dim));
  const Floats values = harness::ValuesOf(kFormat, in.keys.data() + key * row_bytes, in.head_dim);
  float sum = 0;
  double exact_sum = 0;
  for (size_t head = 0; head < n_heads; ++head) {
    const Bf16* q = in.q.data() + (row * n_heads + head) * head_dim;
    float dot = 0;
    double exact_dot = 0;
    for (size_t pair = 0; pair < head_dim; pair += 2) {
      for (const size_t d : {pair + 1, pair}) {
        dot += ToFloat(q[d]) * values[d];
        exact_dot += double{ToFloat(q[d])} * double{values[d]};
      }
    }
    if (arithmetic == Arithmetic::kExact) dot = static_cast<float>(exact_dot);
    dot = MaybeBf16(dot, formula.rounds_dot);
    const float weight = ToFloat(in.weights[row * n_heads + head]);
    const float product =
        formula.relu_first ? std::max(dot, 0.0F) * weight : std::max(dot * weight, 0.0F);
    sum += MaybeBf16(product, formula.rounds_product);
    exact_sum += MaybeBf16(product, formula.rounds_product);
  }
  if (arithmetic == Arithmetic::kExact) sum = static_cast<float>(exact_sum);
  return MaybeBf16(sum, formula.rounds_sum);
}

// Visible scores that differ from a formula's.
int64_t CountOff(const Operands& in, Arithmetic arithmetic, const Formula& formula = {}) {
  const Floats got = Score(in, arithmetic);
  const size_t stride = got.size() / in.n_visible.size();
  int64_t n_off = 0;
  for (size_t row = 0; row < in.n_visible.size(); ++row) {
    for (size_t key = 0; key < static_cast<size_t>(in.n_visible[row]); ++key) {
      if (got[row * stride + key] != ScoreOf(in, row, key, arithmetic, formula)) ++n_off;
    }
  }
  return n_off;
}

TEST(IndexScore, IsTheFormulaBitForBit) {
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_EQ(CountOff(Random(32, 128, {3, 16, 40}), arithmetic), 0);
    EXPECT_EQ(CountOff(Random(16, 32, {17, 1}), arithmetic), 0);
    EXPECT_EQ(CountOff(Random(7, 64, {15}), arithmetic), 0);
    EXPECT_EQ(CountOff(Random(1, 96, {33}), arithmetic), 0);
    EXPECT_EQ(CountOff(Random(3, 32, {600}), arithmetic), 0);
  }
}

TEST(IndexScore, RoundsToBf16AtAllThreePoints) {
  const Operands in = Random(16, 64, {100, 100});
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_GT(CountOff(in, arithmetic, {.rounds_dot = false}), 0);
    EXPECT_GT(CountOff(in, arithmetic, {.rounds_product = false}), 0);
    EXPECT_GT(CountOff(in, arithmetic, {.rounds_sum = false}), 0);
  }
}

TEST(IndexScore, TakesTheReluBeforeTheWeight) {
  const Operands in = Random(16, 64, {100});
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_GT(CountOff(in, arithmetic, {.relu_first = false}), 0);
  }
}

TEST(IndexScore, TheLowNibbleOfAKeyIsTheEvenComponent) {
  // One key: code 2 (1.0) in component 0, code 5 (3.0) in component 1, scale 2^1.
  Operands in{.n_heads = 1,
              .head_dim = 32,
              .q = std::vector<Bf16>(64, ToBf16(0)),
              .weights = {ToBf16(1), ToBf16(1)},
              .keys = std::vector<uint8_t>(17, 0),
              .n_visible = {1, 1}};
  in.keys[0] = 0x52;
  in.keys[16] = 128;
  in.q[0] = ToBf16(1);       // row 0 asks for component 0
  in.q[32 + 1] = ToBf16(1);  // row 1 for component 1
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const Floats scores = Score(in, arithmetic);
    EXPECT_EQ(scores[0], 2);
    EXPECT_EQ(scores[scores.size() / 2], 6);
  }
}

TEST(IndexScore, WritesTheVisibleScoresOnly) {
  const std::vector<int64_t> n_visible = {0, 5, 16, 17, 300};
  const Operands in = Random(4, 32, n_visible);
  const Floats scores = Score(in, Arithmetic::kFloat32);
  const size_t stride = scores.size() / n_visible.size();
  for (size_t row = 0; row < n_visible.size(); ++row) {
    for (size_t key = 0; key < stride; ++key) {
      const bool is_visible = key < static_cast<size_t>(n_visible[row]);
      EXPECT_EQ(scores[row * stride + key] != kUnwritten, is_visible) << row << " " << key;
    }
  }
}

TEST(IndexScore, TheOrderOfBlocksInThePoolDoesNotMatter) {
  const Operands in = Random(8, 64, {70, 41});
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const Floats in_order = Score(in, arithmetic, 0);
    EXPECT_EQ(Score(in, arithmetic, 7), in_order);
    EXPECT_EQ(Score(in, arithmetic, 8), in_order);
  }
}

TEST(IndexScore, RowsAreIndependent) {
  const Operands in = Random(8, 32, {530, 0, 1, 15, 16, 257, 300});
  const harness::PagedPool pool = harness::MakePagedPool(in.keys, RowBytes(kFormat, 32), 8, 3);
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    harness::ExpectRowsAreIndependent(7, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
      return harness::BytesOf(Score(in, pool.rows, first, n, stream));
    });
  }
}

// Scores in an instruction set, and whether that is the one that ran.
Floats ScoreIn(const Operands& in, Isa isa) {
  const harness::PagedPool pool =
      harness::MakePagedPool(in.keys, RowBytes(kFormat, in.head_dim), 4, 5);
  ThreadTeam team(2);
  Stream stream{.team = team, .isas = {.all = IsasOfMachine().UpTo(isa)}};
  EXPECT_EQ(ChosenIsa({.head_dim = in.head_dim}, stream), isa);
  return Score(in, pool.rows, 0, static_cast<int64_t>(in.n_visible.size()), stream);
}

// Keys with scales that leave the range of the fast path, and queries that do, among others.
TEST(IndexScore, EveryVariantHasTheBitsOfTheReference) {
  for (const Isa isa : Isas()) {
    if (!IsasOfMachine().Has(isa)) continue;
    for (const int32_t n_heads : {1, 7, 8, 33}) {
      Operands in = Random(n_heads, 64, {1, 16, 47, 530});
      const auto row_bytes = static_cast<size_t>(RowBytes(kFormat, 64));
      const uint8_t scales[] = {1, 2, 63, 64, 190, 191, 200};
      for (size_t i = 0; i < std::size(scales); ++i)
        in.keys[(i + 3) * 9 * row_bytes - 1] = scales[i];
      EXPECT_EQ(harness::BytesOf(ScoreIn(in, isa)), harness::BytesOf(ScoreIn(in, Isa::kRef)));
      for (size_t i = 0; i < in.q.size(); i += 5)
        in.q[i].bits = static_cast<uint16_t>(i % 200 << 5);
      EXPECT_EQ(harness::BytesOf(ScoreIn(in, isa)), harness::BytesOf(ScoreIn(in, Isa::kRef)));
    }
  }
}

}  // namespace
}  // namespace sluice::ops::index_score
