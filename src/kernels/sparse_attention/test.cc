#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/harness/stored_rows_test_impl.h"
#include "kernels/sparse_attention/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::sparse_attention {
namespace {

using Floats = std::vector<float>;
using Bf16s = std::vector<Bf16>;
using Ids = std::vector<int32_t>;

constexpr GroupFormat kWindowFormat = GroupFormat::kFp8;
constexpr GroupFormat kEntryFormat = GroupFormat::kFp4Nv;

// A sequence: window rows of all its positions and its compressed entries, as stored.
struct Sequence {
  int32_t head_dim;
  std::vector<uint8_t> window;   // [n_positions]
  std::vector<uint8_t> entries;  // [n_entries]
};

Sequence RandomSequence(int32_t head_dim, int64_t n_positions, int64_t n_entries) {
  harness::Samples samples(51);
  return {.head_dim = head_dim,
          .window = harness::StoredRows(kWindowFormat, n_positions, head_dim, samples),
          .entries = harness::StoredRows(kEntryFormat, n_entries, head_dim, samples)};
}

// The ring as it is after the positions below `end` were written.
std::vector<uint8_t> RingOf(const Sequence& sequence, int32_t ring_rows, int32_t end) {
  const int32_t row_bytes = RowBytes(kWindowFormat, sequence.head_dim);
  std::vector<uint8_t> ring(static_cast<size_t>(ring_rows * row_bytes), 0x55);
  for (int32_t position = std::max(0, end - ring_rows); position < end; ++position) {
    std::copy_n(sequence.window.begin() + int64_t{position} * row_bytes, row_bytes,
                ring.begin() + int64_t{position % ring_rows} * row_bytes);
  }
  return ring;
}

// What all rows of a test have in common.
struct Shape {
  int32_t n_heads = 1;
  int32_t head_dim = 32;
  int32_t n_window = 0;
  int32_t n_chosen_max = 0;
  Floats sink;  // [n_heads]
  float scale = 1;
};

Bf16s Attend(const Shape& shape, const std::vector<Row>& rows, const Bf16* q, Stream& stream) {
  Bf16s out(rows.size() * static_cast<size_t>(shape.n_heads * shape.head_dim));
  Run({.q = q,
       .rows = rows.data(),
       .n_rows = static_cast<int64_t>(rows.size()),
       .n_heads = shape.n_heads,
       .head_dim = shape.head_dim,
       .n_window = shape.n_window,
       .n_chosen_max = shape.n_chosen_max,
       .sink = shape.sink.data(),
       .scale = shape.scale,
       .out = out.data()},
      stream);
  return out;
}

Bf16s Attend(const Shape& shape, const Row& row, const Bf16s& q, Arithmetic arithmetic) {
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = arithmetic};
  return Attend(shape, {row}, q.data(), stream);
}

// Decoded keys with their places.
struct Columns {
  Floats keys;
  Ids places;

  void Add(const Floats& key, int32_t place) {
    keys.insert(keys.end(), key.begin(), key.end());
    places.push_back(place);
  }
};

Bf16s AttendDecoded(const Shape& shape,
                    const Columns& columns,
                    const Bf16s& q,
                    Arithmetic arithmetic) {
  Bf16s out(q.size());
  RunDecoded({.q = q.data(),
              .keys = columns.keys.data(),
              .columns = columns.places.data(),
              .n_columns = static_cast<int32_t>(columns.places.size()),
              .n_heads = shape.n_heads,
              .head_dim = shape.head_dim,
              .sink = shape.sink.data(),
              .scale = shape.scale,
              .out = out.data()},
             arithmetic);
  return out;
}

// The columns that a row means, by the definition of the layout.
Columns ColumnsOf(const Sequence& sequence, const Shape& shape, const Row& row, const Ids& chosen) {
  Columns columns;
  const int32_t oldest = std::max(0, row.position - shape.n_window + 1);
  for (int32_t p = std::max(oldest, row.window_begin); p <= row.position; ++p) {
    const int64_t place = int64_t{p} * RowBytes(kWindowFormat, sequence.head_dim);
    columns.Add(harness::ValuesOf(kWindowFormat, sequence.window.data() + place, sequence.head_dim),
                p - oldest);
  }
  int32_t column = shape.n_window;
  for (const int32_t entry : chosen) {
    if (entry < 0) break;
    const int64_t place = int64_t{entry} * RowBytes(kEntryFormat, sequence.head_dim);
    columns.Add(harness::ValuesOf(kEntryFormat, sequence.entries.data() + place, sequence.head_dim),
                column++);
  }
  return columns;
}

// --- against the golden ---

struct Golden {
  Shape shape;
  Bf16s q;
  Columns columns;
  Bf16s want;
};

Golden GoldenCase(const std::string& name) {
  const harness::GoldenFile& tables = harness::Tables();
  Golden golden{.shape = {.n_heads = 4, .head_dim = 64, .scale = 0.125F}};
  const auto* sink = tables["attention.sink"].as<float>();
  golden.shape.sink.assign(sink, sink + 4);
  const auto* q = tables["attention.q"].as<Bf16>();
  golden.q.assign(q, q + 4 * 64);
  const auto* keys = tables["attention.keys"].as<Bf16>();
  const harness::GoldenTensor& columns = tables["attention." + name + ".columns"];
  for (int64_t i = 0; i < columns.n_values(); ++i) {
    const int32_t place = columns.as<int32_t>()[i];
    Floats key;
    for (int64_t d = 0; d < 64; ++d) key.push_back(ToFloat(keys[place * 64 + d]));
    golden.columns.Add(key, place);
  }
  const auto* want = tables["attention." + name + ".out"].as<Bf16>();
  golden.want.assign(want, want + 4 * 64);
  return golden;
}

TEST(SparseAttention, IsTheGoldenBitForBitInExactArithmetic) {
  for (const char* name : {"full", "early", "replayed", "one"}) {
    const Golden golden = GoldenCase(name);
    EXPECT_EQ(AttendDecoded(golden.shape, golden.columns, golden.q, Arithmetic::kExact),
              golden.want)
        << name;
  }
}

TEST(SparseAttention, Float32IsTheGoldenToOneStepOfBf16) {
  for (const char* name : {"full", "early", "replayed", "one"}) {
    const Golden golden = GoldenCase(name);
    const Bf16s got = AttendDecoded(golden.shape, golden.columns, golden.q, Arithmetic::kFloat32);
    int64_t n_far = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const int32_t steps = harness::Steps(got[i], golden.want[i]);
      EXPECT_LE(steps, 2) << name << " " << i;
      n_far += steps > 1 ? 1 : 0;
    }
    EXPECT_LE(n_far * 100, static_cast<int64_t>(got.size())) << name;
  }
}

TEST(SparseAttention, StepsOf64BelongToColumnsOfTheLayoutNotToThoseThatArePresent) {
  Golden golden = GoldenCase("replayed");  // columns from 100 on
  std::iota(golden.columns.places.begin(), golden.columns.places.end(), 0);
  EXPECT_NE(AttendDecoded(golden.shape, golden.columns, golden.q, Arithmetic::kExact), golden.want);
}

// --- where the columns of a row lie ---

class ColumnSources : public testing::Test {
 protected:
  // Compares one row with the columns it means, in both arithmetics.
  void Expect(const Row& row, const Ids& chosen = {}) {
    harness::Samples samples(52);
    const Bf16s q = samples.Bf16s(shape_.n_heads * shape_.head_dim);
    const Columns columns = ColumnsOf(sequence_, shape_, row, chosen);
    for (const Arithmetic arithmetic : harness::kBothArithmetics) {
      EXPECT_EQ(Attend(shape_, row, q, arithmetic), AttendDecoded(shape_, columns, q, arithmetic))
          << "position " << row.position << " step from " << row.step_begin << " window from "
          << row.window_begin;
    }
  }

  Row RowAt(int32_t position, const std::vector<uint8_t>& ring, int32_t step_begin) const {
    const int64_t row_bytes = RowBytes(kWindowFormat, sequence_.head_dim);
    return {.position = position,
            .ring = ring.data(),
            .ring_rows = static_cast<int32_t>(static_cast<int64_t>(ring.size()) / row_bytes),
            .step_rows = sequence_.window.data() + step_begin * row_bytes,
            .step_begin = step_begin};
  }

  const Shape shape_ = {.n_heads = 3,
                        .head_dim = 64,
                        .n_window = 100,
                        .n_chosen_max = 90,
                        .sink = {0.5F, -1, 2},
                        .scale = 0.125F};
  const Sequence sequence_ = RandomSequence(64, 400, 120);
};

TEST_F(ColumnSources, TheRingWraps) {
  // 112 rows: a window of 100 and twice a step of 6. The last row comes with the step.
  for (const int32_t position : {0, 1, 63, 64, 99, 100, 111, 112, 113, 130, 223, 224, 258, 399}) {
    const std::vector<uint8_t> ring = RingOf(sequence_, 112, position);
    Expect(RowAt(position, ring, position));
  }
}

TEST_F(ColumnSources, PositionsOfThisStepComeFromTheStep) {
  for (const int32_t step_begin : {0, 5, 190, 211, 299}) {
    const std::vector<uint8_t> ring = RingOf(sequence_, 112, step_begin);
    for (const int32_t ahead : {0, 1, 50, 99, 100}) {
      Expect(RowAt(step_begin + ahead, ring, step_begin));
    }
  }
}

TEST_F(ColumnSources, TheWindowCutHidesOlderPositionsAndMovesNoColumn) {
  const std::vector<uint8_t> ring = RingOf(sequence_, 112, 250);
  for (const int32_t window_begin : {0, 151, 152, 200, 214, 215, 250}) {
    Row row = RowAt(250, ring, 250);
    row.window_begin = window_begin;
    Expect(row);
  }
}

TEST_F(ColumnSources, EntriesFollowTheWindowWhereverTheirBlocksLie) {
  const std::vector<uint8_t> ring = RingOf(sequence_, 112, 250);
  const int32_t row_bytes = RowBytes(kEntryFormat, 64);
  harness::Samples samples(53);
  for (const int32_t n_chosen : {0, 1, 27, 28, 29, 89, 90}) {
    Ids chosen(120);
    std::iota(chosen.begin(), chosen.end(), 0);
    while (static_cast<int32_t>(chosen.size()) > n_chosen) {
      chosen.erase(chosen.begin() + samples.Below(static_cast<int32_t>(chosen.size())));
    }
    chosen.resize(90, -1);
    for (const uint64_t shuffle : {0, 1, 2}) {
      const harness::PagedPool pool =
          harness::MakePagedPool(sequence_.entries, row_bytes, 8, shuffle);
      Row row = RowAt(250, ring, 250);
      row.entries = pool.rows;
      row.chosen = chosen.data();
      Expect(row, chosen);
      row = RowAt(30, ring, 0);  // a short window: columns 31 to 99 are absent
      row.entries = pool.rows;
      row.chosen = chosen.data();
      Expect(row, chosen);
    }
  }
}

TEST_F(ColumnSources, ARowWithoutColumnsGivesZeros) {
  const std::vector<uint8_t> ring = RingOf(sequence_, 112, 250);
  const Ids none(90, -1);
  Row row = RowAt(250, ring, 250);
  row.window_begin = 251;
  row.chosen = none.data();
  harness::Samples samples(54);
  const Bf16s q = samples.Bf16s(3 * 64);
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_EQ(Attend(shape_, row, q, arithmetic), Bf16s(3 * 64, ToBf16(0)));
  }
}

TEST_F(ColumnSources, EveryNumberOfHeadsGivesTheSameBitsPerHead) {
  const std::vector<uint8_t> ring = RingOf(sequence_, 112, 250);
  const Row row = RowAt(250, ring, 250);
  harness::Samples samples(55);
  Shape shape = shape_;
  shape.n_heads = 67;
  shape.sink = samples.Floats(67);
  const Bf16s q = samples.Bf16s(67 * 64);
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const Bf16s all = Attend(shape, row, q, arithmetic);
    for (int32_t head = 0; head < 67; ++head) {
      Shape one = shape;
      one.n_heads = 1;
      one.sink = {shape.sink[static_cast<size_t>(head)]};
      const Bf16s q_head(q.begin() + head * 64, q.begin() + (head + 1) * 64);
      const Bf16s want(all.begin() + head * 64, all.begin() + (head + 1) * 64);
      EXPECT_EQ(Attend(one, row, q_head, arithmetic), want) << "head " << head;
    }
  }
}

TEST_F(ColumnSources, RowsAreIndependent) {
  const std::vector<uint8_t> ring = RingOf(sequence_, 112, 245);
  const harness::PagedPool pool =
      harness::MakePagedPool(sequence_.entries, RowBytes(kEntryFormat, 64), 4, 9);
  Ids chosen(90);
  std::iota(chosen.begin(), chosen.end(), 7);
  Shape shape = shape_;
  shape.n_heads = 21;
  harness::Samples samples(56);
  shape.sink = samples.Floats(21);
  const Bf16s q = samples.Bf16s(5 * 21 * 64);
  std::vector<Row> rows;
  for (int32_t position = 245; position < 250; ++position) {
    rows.push_back(RowAt(position, ring, 245));
    rows.back().entries = pool.rows;
    rows.back().chosen = position % 2 == 0 ? nullptr : chosen.data();
  }
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    harness::ExpectRowsAreIndependent(5, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
      const std::vector<Row> part(rows.begin() + first, rows.begin() + first + n);
      return harness::BytesOf(Attend(shape, part, q.data() + first * 21 * 64, stream));
    });
  }
}

TEST(SparseAttention, ServesTheReleasedShape) {
  const Sequence sequence = RandomSequence(512, 200, 600);
  const std::vector<uint8_t> ring = RingOf(sequence, 140, 199);
  const harness::PagedPool pool =
      harness::MakePagedPool(sequence.entries, RowBytes(kEntryFormat, 512), 64, 5);
  Ids chosen(512);
  std::iota(chosen.begin(), chosen.end(), 50);
  harness::Samples samples(57);
  const Shape shape = {.n_heads = 18,
                       .head_dim = 512,
                       .n_window = 128,
                       .n_chosen_max = 512,
                       .sink = samples.Floats(18),
                       .scale = 1 / std::sqrt(512.0F)};
  const Bf16s q = samples.Bf16s(18 * 512);
  const int64_t step_place = 199 * int64_t{RowBytes(kWindowFormat, 512)};
  const Row row = {.position = 199,
                   .ring = ring.data(),
                   .ring_rows = 140,
                   .step_rows = sequence.window.data() + step_place,
                   .step_begin = 199,
                   .entries = pool.rows,
                   .chosen = chosen.data()};
  const Columns columns = ColumnsOf(sequence, shape, row, chosen);
  const Bf16s exact = Attend(shape, row, q, Arithmetic::kExact);
  EXPECT_EQ(exact, AttendDecoded(shape, columns, q, Arithmetic::kExact));
  const Bf16s fast = Attend(shape, row, q, Arithmetic::kFloat32);
  EXPECT_EQ(fast, AttendDecoded(shape, columns, q, Arithmetic::kFloat32));
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(double{ToFloat(fast[i])} - ToFloat(exact[i]), 2);
    size += std::pow(double{ToFloat(exact[i])}, 2);
  }
  // A value that falls to the other side of a rounding moves by 2^-8 at most.
  EXPECT_LT(std::sqrt(error / size), 0x1p-8);
}

// --- stored formats ---

// One entry and nothing else, a sink that weighs nothing: the output is the decoded entry.
Bf16s OnlyEntry(const std::vector<uint8_t>& stored) {
  const Shape shape = {
      .n_heads = 1, .head_dim = 32, .n_window = 4, .n_chosen_max = 1, .sink = {-1e30F}};
  const harness::PagedPool pool = harness::MakePagedPool(stored, RowBytes(kEntryFormat, 32), 1, 0);
  const Ids chosen = {0};
  const Row row = {.position = 9,
                   .step_rows = stored.data(),
                   .window_begin = 10,
                   .entries = pool.rows,
                   .chosen = chosen.data()};
  return Attend(shape, row, Bf16s(32, ToBf16(0.5F)), Arithmetic::kFloat32);
}

TEST(SparseAttention, TheLowNibbleOfAnEntryIsTheEvenComponent) {
  std::vector<uint8_t> stored(18, 0);
  stored[0] = 0x52;                // 1 in component 0, 3 in component 1
  stored[16] = stored[17] = 0x38;  // scales 1
  const Bf16s out = OnlyEntry(stored);
  EXPECT_EQ(ToFloat(out[0]), 1);
  EXPECT_EQ(ToFloat(out[1]), 3);
}

TEST(SparseAttention, TheScaleOfAnEntryIsAnE4m3NumberPer16ComponentsNotAPowerOfTwo) {
  std::vector<uint8_t> stored(18, 0x55);  // 3 everywhere
  stored[16] = 0x3b;                      // 1 + 3/8
  stored[17] = 0x01;                      // 2^-9, the smallest
  const Bf16s out = OnlyEntry(stored);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(ToFloat(out[i]), i < 16 ? 4.125F : 3 * 0x1p-9F);
}

// --- the softmax ---

// Columns whose scores are given and whose values are in component 1: q is (1, 0, ...), the key
// (score, value, 0, ...). Returns component 1.
float Mix(const Floats& scores, const Floats& values, const Ids& places, float sink) {
  Columns columns;
  for (size_t i = 0; i < scores.size(); ++i) {
    Floats key(32, 0);
    key[0] = scores[i];
    key[1] = values[i];
    columns.Add(key, places[i]);
  }
  Bf16s q(32, ToBf16(0));
  q[0] = ToBf16(1);
  const Shape shape = {.n_heads = 1, .head_dim = 32, .sink = {sink}};
  return ToFloat(AttendDecoded(shape, columns, q, Arithmetic::kExact)[1]);
}

TEST(SparseAttention, TheSinkIsNotScaledAndHasNoValue) {
  Columns columns;
  columns.Add(Floats(32, 1), 0);
  const Bf16s q(32, ToBf16(1));
  const Shape shape = {.n_heads = 1, .head_dim = 32, .sink = {3}, .scale = 0.125F};
  // The score is 32/8 = 4, the sink stays 3.
  const float want = RoundToBf16(static_cast<float>(1 / (1 + std::exp(-1.0))));
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_EQ(ToFloat(AttendDecoded(shape, columns, q, arithmetic)[5]), want);
  }
}

TEST(SparseAttention, ASinkFarAboveEveryScoreLeavesNothing) {
  EXPECT_EQ(Mix({1, 2}, {5, 6}, {0, 1}, 1000), 0);
}

TEST(SparseAttention, ProbabilitiesOfTheValuesAreRoundedToBf16AndThoseOfTheSumAreNot) {
  int64_t n_shown = 0;
  for (int i = 1; i < 64; ++i) {
    const float low = -static_cast<float>(i) / 32;
    const auto p = static_cast<float>(std::exp(double{low}));
    const float weight = 1 + p;
    const float got = Mix({0, low}, {0, 1}, {0, 1}, -1e30F);
    EXPECT_EQ(got, RoundToBf16(RoundToBf16(p) / weight)) << low;
    n_shown += got != RoundToBf16(p / weight) ? 1 : 0;
    n_shown += got != RoundToBf16(RoundToBf16(p) / (1 + RoundToBf16(p))) ? 1 : 0;
  }
  EXPECT_GT(n_shown, 0);
}

TEST(SparseAttention, ProbabilitiesAreRoundedRelativeToTheMaximumSoFar) {
  // The lower score comes a step earlier: its probability was 1 then and is scaled down exactly.
  int64_t n_shown = 0;
  for (int i = 1; i < 64; ++i) {
    const float low = -static_cast<float>(i) / 32;
    const auto p = static_cast<float>(std::exp(double{low}));
    const float got = Mix({low, 0}, {1, 0}, {63, 64}, -1e30F);
    EXPECT_EQ(got, RoundToBf16(p / (p + 1))) << low;
    n_shown += got != RoundToBf16(RoundToBf16(p) / (p + 1)) ? 1 : 0;
    EXPECT_EQ(Mix({low, 0}, {1, 0}, {62, 63}, -1e30F), RoundToBf16(RoundToBf16(p) / (p + 1)))
        << "one step";
  }
  EXPECT_GT(n_shown, 0);
}

}  // namespace
}  // namespace sluice::ops::sparse_attention
