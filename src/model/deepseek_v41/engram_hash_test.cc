#include "model/deepseek_v41/engram_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor/golden_file_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

using Numbers = std::vector<int64_t>;

EngramHash Make(std::vector<int32_t> layer_ids, EngramHashParams params) {
  params.layer_ids = layer_ids;
  return EngramHash(params);
}

EngramHash Released() {
  return Make({1, 14},
              {.max_ngram = 4, .n_heads = 8, .vocab_size = 16'000'000, .n_classes = 99'092});
}

EngramHash TinyA() {
  return Make({1, 4}, {.max_ngram = 4, .n_heads = 2, .vocab_size = 512, .n_classes = 400});
}

Numbers Rows(const EngramHashLayer& layer, std::vector<int32_t> classes, int32_t pad_class) {
  Numbers rows(layer.primes.size());
  HashRows(layer, classes, pad_class, rows.data());
  return rows;
}

// Layer `layer` of a golden tensor [layers, ...].
Numbers Golden(const std::string& name, size_t layer) {
  const harness::GoldenTensor& tensor = harness::Tables()[name];
  const auto n = static_cast<size_t>(tensor.n_values() / tensor.shape[0]);
  const auto* first = tensor.as<int64_t>() + layer * n;
  return {first, first + n};
}

TEST(EngramHash, HasTheReleasedPrimesOffsetsAndMultipliers) {
  const EngramHash hash = Released();
  ASSERT_EQ(hash.layers.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(hash.layers[i].primes, Golden("engram.primes", i));
    EXPECT_EQ(hash.layers[i].offsets, Golden("engram.offsets", i));
    EXPECT_EQ(hash.layers[i].multipliers, Golden("engram.multipliers", i));
  }
  EXPECT_EQ(hash.layers[0].n_rows, 384'006'168);  // spec model.md Appendix A
  EXPECT_EQ(hash.layers[1].n_rows, 384'016'682);
}

// The golden's rows: a history is cut at the first -2 (before the sequence), -1 is an image token.
TEST(EngramHash, FindsTheRowsOfTheReleasedTables) {
  const EngramHash hash = Released();
  const harness::GoldenTensor& histories = harness::Tables()["engram.histories"];
  const auto* rows = harness::Tables()["engram.rows"].as<int64_t>();
  const auto* byte_offsets = harness::Tables()["engram.byte_offsets"].as<int64_t>();
  int64_t largest = 0;
  for (int64_t i = 0; i < histories.shape[0]; ++i) {
    std::vector<int32_t> classes;
    for (int64_t back = 0; back < 4; ++back) {
      const int64_t value = histories.as<int64_t>()[i * 4 + back];
      if (value == -2) break;
      classes.push_back(value == -1 ? kNoClass : static_cast<int32_t>(value));
    }
    for (const EngramHashLayer& layer : hash.layers) {
      for (const int64_t row : Rows(layer, classes, 2)) {
        EXPECT_EQ(row, *rows++) << "history " << i << " layer " << layer.layer_id;
        EXPECT_EQ(row * 256, *byte_offsets++);
        largest = std::max(largest, row * 256);
      }
    }
  }
  EXPECT_EQ(largest, 98'270'576'128);
}

// Symptom: `sluice inspect` of a config.json with 700 Engram layers did not end within 30 s.
TEST(EngramHash, NobodySearchesWhereOthersHaveTaken) {
  std::vector<int32_t> layer_ids(256);
  std::iota(layer_ids.begin(), layer_ids.end(), 0);
  const EngramHash hash =
      Make(layer_ids, {.max_ngram = 8, .n_heads = 64, .vocab_size = 2, .n_classes = 400});
  EXPECT_EQ(hash.layers[0].primes[0], 2);
  EXPECT_EQ(hash.layers[255].primes[447], 1'507'097);  // the 114,688th prime
}

TEST(EngramHash, HasTheNumbersOfTinyA) {  // spec model.md §6.1
  const EngramHash hash = TinyA();
  EXPECT_EQ(hash.layers[0].primes, (Numbers{521, 523, 541, 547, 557, 563}));
  EXPECT_EQ(hash.layers[1].primes, (Numbers{569, 571, 577, 587, 593, 599}));
  EXPECT_EQ(hash.layers[0].multipliers,
            (Numbers{18984069153536581, 1198982504596559, 8908289623672409, 18328883108567563}));
  EXPECT_EQ(hash.layers[1].multipliers,
            (Numbers{20378323963399201, 1248012217874625, 18246170261325197, 4695688200551669}));
  EXPECT_EQ(hash.layers[0].n_rows, 3252);
  EXPECT_EQ(hash.layers[1].n_rows, 3496);
}

TEST(EngramHash, HasTheNumbersOfMiniB) {  // rows: spec model.md §6.2; the rest: the reference
  const EngramHash hash =
      Make({1, 5}, {.max_ngram = 4, .n_heads = 4, .vocab_size = 8192, .n_classes = 3449});
  EXPECT_EQ(hash.layers[0].n_rows, 98'976);
  EXPECT_EQ(hash.layers[1].n_rows, 100'204);
  EXPECT_EQ(hash.layers[1].primes,
            (Numbers{8293, 8297, 8311, 8317, 8329, 8353, 8363, 8369, 8377, 8387, 8389, 8419}));
  EXPECT_EQ(hash.layers[0].multipliers,
            (Numbers{2201689666980177, 139052769451615, 1033144635972445, 2125704042744859}));
  EXPECT_EQ(hash.layers[1].multipliers,
            (Numbers{1045843034482693, 889239365856103, 585144902360539, 1893537152845473}));
}

TEST(EngramHash, HasTheNumbersOfSliceC) {  // spec model.md §6.5
  const EngramHash hash =
      Make({1}, {.max_ngram = 4, .n_heads = 8, .vocab_size = 65'536, .n_classes = 99'092});
  EXPECT_EQ(hash.layers[0].primes,
            (Numbers{65537, 65539, 65543, 65551, 65557, 65563, 65579, 65581,
                     65587, 65599, 65609, 65617, 65629, 65633, 65647, 65651,
                     65657, 65677, 65687, 65699, 65701, 65707, 65713, 65717}));
  EXPECT_EQ(hash.layers[0].n_rows, 1'574'980);
  EXPECT_EQ(hash.layers[0].multipliers, Golden("engram.multipliers", 0));
}

TEST(EngramHash, DrawsAsNumpyDoesForSmallClassCounts) {  // bounds near 2^62; the reference
  const EngramHash hash =
      Make({0, 3}, {.max_ngram = 3, .n_heads = 1, .vocab_size = 2, .n_classes = 1});
  EXPECT_EQ(hash.layers[0].multipliers,
            (Numbers{5874934615388537135, 2488343231644625807, 377914054924498011}));
  EXPECT_EQ(hash.layers[1].multipliers,
            (Numbers{2727703110629360017, 8091777532450917643, 1077915957631160223}));
  EXPECT_EQ(hash.layers[0].primes, (Numbers{2, 3}));
  EXPECT_EQ(hash.layers[1].primes, (Numbers{5, 7}));
}

TEST(EngramHash, FindsTheRowsOfTinyA) {  // the reference
  const EngramHash hash = TinyA();
  EXPECT_EQ(Rows(hash.layers[0], {5, 6, 7, 8}, 2), (Numbers{96, 925, 1408, 1642, 2200, 2785}));
  EXPECT_EQ(Rows(hash.layers[1], {399, 0}, 2), (Numbers{440, 621, 1225, 2071, 2673, 3224}));
}

TEST(EngramHash, AnImageTokenCutsItselfAndEverythingOlder) {
  const EngramHashLayer layer = TinyA().layers[0];
  EXPECT_EQ(Rows(layer, {5, kNoClass, 7, 8}, 2), Rows(layer, {5, 2, 2, 2}, 2));
  EXPECT_EQ(Rows(layer, {5, 6, kNoClass, 8}, 2), Rows(layer, {5, 6, 2, 2}, 2));
  EXPECT_EQ(Rows(layer, {kNoClass, 5, 6, 7}, 2), Rows(layer, {2, 2, 2, 2}, 2));
  EXPECT_NE(Rows(layer, {5, 6, kNoClass, 8}, 2), Rows(layer, {5, 6, 2, 8}, 2));
}

TEST(EngramHash, TheStartOfASequenceCutsLikeAnImageToken) {
  const EngramHashLayer layer = TinyA().layers[0];
  EXPECT_EQ(Rows(layer, {5}, 2), Rows(layer, {5, kNoClass, 7, 8}, 2));
  EXPECT_EQ(Rows(layer, {5, 6, 7}, 2), Rows(layer, {5, 6, 7, kNoClass}, 2));
  EXPECT_NE(Rows(layer, {5}, 2), Rows(layer, {5}, 3)) << "the pad class must count";
}

TEST(EngramHash, ReadsNoMoreThanMaxNgramClasses) {
  const EngramHashLayer layer = TinyA().layers[0];
  EXPECT_EQ(Rows(layer, {5, 6, 7, 8, 9, kNoClass}, 2), Rows(layer, {5, 6, 7, 8}, 2));
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
