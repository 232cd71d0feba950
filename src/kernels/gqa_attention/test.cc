#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/gqa_attention/op.h"
#include "kernels/harness/samples_test_impl.h"
#include "kernels/harness/stored_rows_test_impl.h"

namespace sluice::ops::gqa_attention {
namespace {

using harness::kBothArithmetics;
using harness::MakePagedPool;
using harness::PagedPool;
using harness::Samples;
using harness::UpTo;

struct Shape {
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
};

// Groups of one, odd ones and ones that are larger than what goes together; dimensions that are no
// multiple of 4 or 16, and between tiles of 32 and 64.
const Shape kShapes[] = {{9, 3, 64},  {4, 4, 32}, {14, 2, 64}, {5, 1, 6},   {20, 1, 18},
                         {64, 1, 16}, {3, 1, 80}, {2, 1, 128}, {4, 2, 100}, {2, 1, 256}};

std::string NameOf(const Shape& shape) {
  return std::to_string(shape.n_heads) + " heads, " + std::to_string(shape.n_kv_heads) +
         " of keys, " + std::to_string(shape.head_dim) + " wide";
}

// A sequence of n positions with a query row at each.
struct Text {
  std::vector<Bf16> key_values, value_values;  // [n, n_kv_heads, head_dim]
  PagedPool keys, values;
  std::vector<float> q;  // [n, n_heads, head_dim]
  std::vector<int32_t> positions;
};

Text MakeText(const Shape& shape, int64_t n, uint64_t seed) {
  Samples samples(seed);
  const int32_t n_row = shape.n_kv_heads * shape.head_dim;
  Text text;
  text.key_values = samples.Bf16s(n * n_row);
  text.value_values = samples.Bf16s(n * n_row, 1, 0.25F);
  text.keys = MakePagedPool(harness::BytesOf(text.key_values), n_row * 2, 64, seed + 1);
  text.values = MakePagedPool(harness::BytesOf(text.value_values), n_row * 2, 64, seed + 2);
  text.q = samples.Floats(n * shape.n_heads * shape.head_dim, 2);
  for (int64_t i = 0; i < n; ++i) text.positions.push_back(static_cast<int32_t>(i));
  return text;
}

float ScaleOf(const Shape& shape) { return 1.0F / std::sqrt(static_cast<float>(shape.head_dim)); }

std::vector<Isa> IsasHere() {
  std::vector<Isa> isas;
  for (const Isa isa : gqa_attention::Isas()) {
    if (IsasOfMachine().Has(isa)) isas.push_back(isa);
  }
  return isas;
}

// Rows [first, first + n) of one text.
std::vector<Bf16> Attend(
    const Shape& shape, const Text& text, int64_t first, int64_t n, Stream& stream) {
  const int64_t n_row = int64_t{shape.n_heads} * shape.head_dim;
  std::vector<Bf16> out(static_cast<size_t>(n * n_row));
  const Sequence sequence{.keys = text.keys.rows, .values = text.values.rows, .n_rows = n};
  gqa_attention::Run({.q = text.q.data() + first * n_row,
                      .positions = text.positions.data() + first,
                      .sequences = &sequence,
                      .n_sequences = 1,
                      .n_heads = shape.n_heads,
                      .n_kv_heads = shape.n_kv_heads,
                      .head_dim = shape.head_dim,
                      .scale = ScaleOf(shape),
                      .out = out.data()},
                     stream);
  return out;
}

struct Wanted {
  double value = 0;
  double sum_of_magnitudes = 0;  // of what was added up
};

// Component d of head h at row t: the formula in double.
Wanted Formula(const Shape& shape, const Text& text, int32_t t, int32_t h, int32_t d) {
  const int32_t kv = h / (shape.n_heads / shape.n_kv_heads);
  const float* q = text.q.data() + (int64_t{t} * shape.n_heads + h) * shape.head_dim;
  const auto rounded = [q](int32_t i) { return double{RoundToBf16(q[i])}; };
  const auto place = [&](int32_t p) {
    return static_cast<size_t>((p * shape.n_kv_heads + kv) * shape.head_dim);
  };
  std::vector<double> scores;
  double top = -1e300;
  for (int32_t p = 0; p <= t; ++p) {
    double score = 0;
    for (int32_t i = 0; i < shape.head_dim; ++i) {
      score += rounded(i) * double{ToFloat(text.key_values[place(p) + static_cast<size_t>(i)])};
    }
    scores.push_back(score * double{ScaleOf(shape)});
    top = std::max(top, scores.back());
  }
  double weight = 0;
  Wanted wanted;
  for (int32_t p = 0; p <= t; ++p) {
    const double e = std::exp(scores[static_cast<size_t>(p)] - top);
    const double value = double{ToFloat(text.value_values[place(p) + static_cast<size_t>(d)])};
    weight += e;
    wanted.value += e * value;
    wanted.sum_of_magnitudes += e * std::abs(value);
  }
  wanted.value /= weight;
  wanted.sum_of_magnitudes /= weight;
  return wanted;
}

// Largest |scale * q . k| of any score is S: its rounding errors, head_dim + 2 of them at most, are
// relative to the sum of magnitudes, here at most head_dim * max|q| * max|k| * scale; 2^x turns an
// absolute error of x into a relative one of the weights, which then mix the values. A probability
// is off by half a step of bf16 and the polynomial's 3e-6, above and below the line.
double Bound(const Shape& shape, const Wanted& wanted, int32_t t) {
  constexpr double kEps = 0x1p-24;
  const double magnitude = shape.head_dim * 7.0 * 3.5 * double{ScaleOf(shape)};
  const double of_scores = (shape.head_dim + 3) * kEps * magnitude;
  const double of_sums = (t + 2 * (t / 256 + 1) + 8) * kEps;
  const double of_probs = 0x1p-9 + 3e-6;
  return 2 * (of_scores + of_sums + of_probs) * wanted.sum_of_magnitudes +
         std::abs(wanted.value) * 0x1p-8;  // bf16
}

TEST(GqaAttention, IsTheSoftmaxOverAllPositionsUpToTheRow) {
  for (const Shape& shape : kShapes) {
    const Text text = MakeText(shape, 150, 3);
    for (const Arithmetic arithmetic : kBothArithmetics) {
      ThreadTeam team(2);
      Stream stream{.team = team, .arithmetic = arithmetic};
      const std::vector<Bf16> out = Attend(shape, text, 0, 150, stream);
      for (const int32_t t : {0, 1, 15, 62, 63, 64, 127, 128, 149}) {
        for (int32_t h = 0; h < shape.n_heads; ++h) {
          for (int32_t d = 0; d < shape.head_dim; d += 5) {
            const Wanted wanted = Formula(shape, text, t, h, d);
            const auto at = static_cast<size_t>((t * shape.n_heads + h) * shape.head_dim + d);
            ASSERT_NEAR(ToFloat(out[at]), wanted.value, Bound(shape, wanted, t))
                << NameOf(shape) << " row " << t << " head " << h;
          }
        }
      }
    }
  }
}

// Of 30 deviations, denormal, and of which products are just normal.
Text MakeHardText(const Shape& shape, int64_t n, uint64_t seed) {
  Text text = MakeText(shape, n, seed);
  Samples samples(seed + 3);
  for (size_t i = 0; i < text.q.size(); ++i) {
    if (samples.Below(100) == 0) text.q[i] *= 30;
    if (i / static_cast<size_t>(shape.head_dim) % 5 == 4) text.q[i] *= 0x1p-126F;
  }
  for (const PagedRows& rows : {text.keys.rows, text.values.rows}) {
    for (int64_t p = 0; p < n; ++p) {
      auto* row = reinterpret_cast<Bf16*>(const_cast<uint8_t*>(rows.Row(p)));
      for (int32_t i = 0; i < shape.n_kv_heads * shape.head_dim; ++i) {
        const int32_t kind = samples.Below(200);
        if (kind > 2) continue;
        const float factor[] = {30, 0x1p-100F, 0x1p-130F};
        row[i] = ToBf16(ToFloat(row[i]) * factor[kind]);
      }
    }
  }
  return text;
}

// Spans of 256 and tiles of 64 that are cut, full or just passed; few rows, which threads share by
// spans, and many.
TEST(GqaAttention, EveryVariantHasTheBitsOfTheFormula) {
  constexpr int64_t kRanges[][2] = {{0, 70}, {127, 2}, {250, 12}, {511, 3}, {530, 1}};
  for (const Shape& shape : kShapes) {
    const Text text = MakeHardText(shape, 531, 51);
    for (const auto& [first, n] : kRanges) {
      ThreadTeam one(1);
      Stream plain{.team = one, .isas = UpTo(Isa::kRef)};
      const std::vector<Bf16> want = Attend(shape, text, first, n, plain);
      for (const Isa isa : IsasHere()) {
        for (const int32_t n_threads : {1, 2, 5}) {
          ThreadTeam team(n_threads);
          Stream stream{.team = team, .isas = UpTo(isa)};
          ASSERT_EQ(gqa_attention::ChosenIsa({}, stream), isa);
          ASSERT_EQ(harness::BytesOf(Attend(shape, text, first, n, stream)), harness::BytesOf(want))
              << NameOf(isa) << ", " << NameOf(shape) << ", " << n << " rows from " << first << ", "
              << n_threads << " threads";
        }
      }
    }
  }
}

TEST(GqaAttention, RowsAreIndependent) {
  for (const Isa isa : IsasHere()) {
    for (const Shape& shape : kShapes) {
      const Text text = MakeText(shape, 68, 11);
      for (const Arithmetic arithmetic : kBothArithmetics) {
        if (arithmetic == Arithmetic::kExact && isa != Isa::kRef) continue;
        harness::ExpectRowsAreIndependent(
            68, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
              stream.isas = UpTo(isa);
              return harness::BytesOf(Attend(shape, text, first, n, stream));
            });
      }
    }
  }
}

TEST(GqaAttention, SequencesTogetherGiveWhatEachGivesAlone) {
  const Shape shape = kShapes[0];
  ThreadTeam team(2);
  Stream stream{.team = team};
  const Text texts[] = {MakeText(shape, 70, 21), MakeText(shape, 1, 22), MakeText(shape, 130, 23)};
  const int64_t firsts[] = {65, 0, 3};  // the last rows, one row, nearly all
  std::vector<float> q;
  std::vector<int32_t> positions;
  std::vector<Sequence> sequences;
  std::vector<Bf16> want;
  for (int i = 0; i < 3; ++i) {
    const Text& text = texts[i];
    const auto n = static_cast<int64_t>(text.positions.size()) - firsts[i];
    sequences.push_back({.keys = text.keys.rows,
                         .values = text.values.rows,
                         .first_row = static_cast<int64_t>(positions.size()),
                         .n_rows = n});
    q.insert(q.end(), text.q.begin() + firsts[i] * shape.n_heads * shape.head_dim, text.q.end());
    positions.insert(positions.end(), text.positions.begin() + firsts[i], text.positions.end());
    const std::vector<Bf16> alone = Attend(shape, text, firsts[i], n, stream);
    want.insert(want.end(), alone.begin(), alone.end());
  }
  std::vector<Bf16> out(want.size());
  gqa_attention::Run({.q = q.data(),
                      .positions = positions.data(),
                      .sequences = sequences.data(),
                      .n_sequences = 3,
                      .n_heads = shape.n_heads,
                      .n_kv_heads = shape.n_kv_heads,
                      .head_dim = shape.head_dim,
                      .scale = ScaleOf(shape),
                      .out = out.data()},
                     stream);
  EXPECT_EQ(out, want);
}

// Between blocks the pool holds 0xff, which is NaN; so would be rows behind the last one.
TEST(GqaAttention, WhatIsBehindTheRowIsNotLookedAt) {
  const Shape shape = kShapes[0];
  for (const Isa isa : IsasHere()) {
    Text text = MakeText(shape, 300, 31);
    ThreadTeam team(1);
    Stream stream{.team = team, .isas = UpTo(isa)};
    for (const int64_t at : {270, 40}) {
      const std::vector<Bf16> want = Attend(shape, text, at, 1, stream);
      for (int64_t p = at + 1; p < 300; ++p) {
        for (const PagedRows& rows : {text.keys.rows, text.values.rows}) {
          std::fill_n(const_cast<uint8_t*>(rows.Row(p)), rows.row_bytes, uint8_t{0xff});
        }
      }
      EXPECT_EQ(Attend(shape, text, at, 1, stream), want) << NameOf(isa);
    }
  }
}

TEST(GqaAttention, AKeyOrValueThatIsNoNumberSpoilsTheRowsThatSeeIt) {
  const Shape shape = kShapes[0];
  for (const Isa isa : IsasHere()) {
    for (const bool is_key : {true, false}) {
      Text text = MakeText(shape, 80, 41);
      const PagedRows& rows = is_key ? text.keys.rows : text.values.rows;
      *reinterpret_cast<Bf16*>(const_cast<uint8_t*>(rows.Row(69))) = ToBf16(NAN);
      ThreadTeam team(2);
      Stream stream{.team = team, .isas = UpTo(isa)};
      const std::vector<Bf16> out = Attend(shape, text, 0, 80, stream);
      for (int32_t row = 0; row < 80; ++row) {
        const float value = ToFloat(out[static_cast<size_t>(row) * 9 * 64]);
        EXPECT_EQ(std::isnan(value), row >= 69) << NameOf(isa) << ", row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::ops::gqa_attention
