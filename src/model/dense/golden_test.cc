// Logits against Hugging Face transformers (tests/golden/dense/README.md).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/dense/tiny_test_impl.h"

namespace sluice::model::dense {
namespace {

struct Distance {
  double rms = 0;
  double largest = 0;
};

Distance Between(const std::vector<float>& a, const std::vector<float>& b) {
  SLUICE_CHECK(a.size() == b.size());
  Distance distance;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    distance.rms += difference * difference;
    distance.largest = std::max(distance.largest, std::abs(difference));
  }
  distance.rms = std::sqrt(distance.rms / static_cast<double>(a.size()));
  return distance;
}

std::vector<float> LogitsOf(const std::string& name, Arithmetic arithmetic) {
  Tiny tiny(name, 2);
  tiny.stream.arithmetic = arithmetic;
  const std::vector<TokenId> tokens = GoldenTokens(name);
  return tiny.Append(0, tokens, static_cast<int32_t>(tokens.size()));
}

class DenseGolden : public testing::TestWithParam<const char*> {};

TEST_P(DenseGolden, LogitsAreOffByNoMoreThanTheRoundingThatIsDocumented) {
  const std::string name = GetParam();
  const std::vector<float> want = GoldenFloats(name + ".logits");
  const Distance noise = Between(GoldenFloats(name + ".rounded"), want);
  for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kExact}) {
    const Distance got = Between(LogitsOf(name, arithmetic), want);
    EXPECT_LE(got.rms, 2 * noise.rms);
    EXPECT_GE(got.rms, noise.rms / 2) << "something is not rounded";
    EXPECT_LE(got.largest, 2 * noise.largest);
  }
}

TEST_P(DenseGolden, TheLikeliestTokenIsTheSameWhereverItLeadsByMoreThanTheNoise) {
  const std::string name = GetParam();
  const std::vector<float> want = GoldenFloats(name + ".logits");
  const std::vector<float> got = LogitsOf(name, Arithmetic::kFloat32);
  const double noise = 2 * Between(GoldenFloats(name + ".rounded"), want).largest;
  const int64_t n_vocab = Golden(name + ".logits").shape[1];
  const int64_t n_rows = Golden(name + ".logits").shape[0];
  int64_t n_clear = 0;
  for (int64_t row = 0; row < n_rows; ++row) {
    std::vector<float> sorted(want.begin() + row * n_vocab, want.begin() + (row + 1) * n_vocab);
    const auto best = std::ranges::max_element(sorted) - sorted.begin();
    std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater<>());
    if (sorted[0] - sorted[1] <= 2 * noise) continue;
    ++n_clear;
    const auto begin = got.begin() + row * n_vocab;
    EXPECT_EQ(std::max_element(begin, begin + n_vocab) - begin, best) << "row " << row;
  }
  EXPECT_GT(n_clear, n_rows / 2);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         DenseGolden,
                         testing::ValuesIn(kTinyModels),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '.');
                           return name;
                         });

}  // namespace
}  // namespace sluice::model::dense
