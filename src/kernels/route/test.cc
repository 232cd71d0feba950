#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/route/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::route {
namespace {

using harness::GoldenTensor;
using harness::kBothArithmetics;
using harness::Samples;
using harness::Tables;

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// n_chosen of a single row.
Choice RouteRow(const std::vector<float>& logits,
                const std::vector<float>& bias,
                int32_t n_chosen,
                Arithmetic arithmetic) {
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = arithmetic};
  Choice choice{.experts = std::vector<int32_t>(static_cast<size_t>(n_chosen)),
                .weights = std::vector<float>(static_cast<size_t>(n_chosen))};
  route::Run({.logits = logits.data(),
              .n_rows = 1,
              .n_experts = static_cast<int32_t>(logits.size()),
              .n_chosen = n_chosen,
              .bias = bias.data(),
              .scale = 1,
              .experts = choice.experts.data(),
              .weights = choice.weights.data()},
             stream);
  return choice;
}

void ExpectGolden(const std::string& kind,
                  const float* bias,
                  const uint8_t* is_image,
                  Arithmetic arithmetic) {
  const GoldenTensor& logits = Tables()["router.logits"];
  const GoldenTensor& ids = Tables()["router." + kind + ".ids"];
  const GoldenTensor& weights = Tables()["router." + kind + ".weights"];
  ThreadTeam team(2);
  Stream stream{.team = team, .arithmetic = arithmetic};
  std::vector<int32_t> got_ids(static_cast<size_t>(ids.n_values()));
  std::vector<float> got_weights(got_ids.size());
  route::Run({.logits = logits.as<float>(),
              .n_rows = logits.shape[0],
              .n_experts = 384,
              .n_chosen = 6,
              .bias = bias,
              .image_bias = Tables()["router.bias_vl"].as<float>(),
              .is_image = is_image,
              .scale = 1.5F,
              .experts = got_ids.data(),
              .weights = got_weights.data()},
             stream);
  EXPECT_EQ(harness::BytesOf(got_ids), ids.bytes) << kind;
  for (size_t i = 0; i < got_weights.size(); ++i) {
    const float want = weights.as<float>()[i];
    EXPECT_NEAR(got_weights[i], want, 1e-6F * want) << kind << ' ' << i;
  }
}

// 384 experts; some engines stop at 256 (spec model.md §7.3, 23 and 32).
TEST(Route, ChoicesAndWeightsAreThoseOfTheReference) {
  const auto* bias = Tables()["router.bias"].as<float>();
  const std::vector<float> no_bias(384, 0);
  const std::vector<uint8_t> images(32, 1);
  const std::vector<uint8_t> texts(32, 0);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    ExpectGolden("text", bias, nullptr, arithmetic);
    ExpectGolden("text", bias, texts.data(), arithmetic);
    ExpectGolden("image", bias, images.data(), arithmetic);
    ExpectGolden("no_bias", no_bias.data(), nullptr, arithmetic);
  }
}

TEST(Route, TiesGoToTheLowerId) {
  const std::vector<float> logits = {1, 2, 1, 2, 2, 1};
  const std::vector<float> bias(6, 0);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    EXPECT_EQ(RouteRow(logits, bias, 2, arithmetic).experts, (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(RouteRow(logits, bias, 4, arithmetic).experts, (std::vector<int32_t>{0, 1, 3, 4}));
    EXPECT_EQ(RouteRow(logits, bias, 6, arithmetic).experts,
              (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(Route, TheBiasSteersTheChoiceAndIsNotInTheWeights) {
  const std::vector<float> logits = {1, 1, 1, 3};
  const std::vector<float> bias = {0, 5, 5, 0};
  for (const Arithmetic arithmetic : kBothArithmetics) {
    const Choice choice = RouteRow(logits, bias, 2, arithmetic);
    EXPECT_EQ(choice.experts, (std::vector<int32_t>{1, 2}));
    EXPECT_FLOAT_EQ(choice.weights[0], 0.5F);
    EXPECT_FLOAT_EQ(choice.weights[1], 0.5F);
  }
}

// With 1e-6 the weights of unlikely experts would vanish (spec model.md §7.3, 19).
TEST(Route, TheSumTakesAnEpsilonOf1em20) {
  const std::vector<float> logits(4, -60.0F);  // scores of about 1e-13
  const std::vector<float> bias(4, 0);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    EXPECT_NEAR(RouteRow(logits, bias, 2, arithmetic).weights[0], 0.5F, 1e-6F);
  }
}

TEST(Route, AnyNumberOfExpertsMayBeChosen) {
  Samples samples(4);
  const std::vector<float> logits = samples.Floats(48, 2);
  const std::vector<float> bias = samples.Floats(48, 0.2F);
  std::vector<float> keys;
  for (size_t i = 0; i < 48; ++i) {
    keys.push_back(std::sqrt(static_cast<float>(std::log1p(std::exp(double{logits[i]})))) +
                   bias[i]);
  }
  std::vector<int32_t> order(48);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float key_a = keys[static_cast<size_t>(a)];
    const float key_b = keys[static_cast<size_t>(b)];
    return key_a != key_b ? key_a > key_b : a < b;
  });
  for (int32_t n_chosen = 1; n_chosen <= 48; ++n_chosen) {
    std::vector<int32_t> want(order.begin(), order.begin() + n_chosen);
    std::sort(want.begin(), want.end());
    const Choice choice = RouteRow(logits, bias, n_chosen, Arithmetic::kFloat32);
    ASSERT_EQ(choice.experts, want);
    EXPECT_NEAR(std::accumulate(choice.weights.begin(), choice.weights.end(), 0.0F), 1.0F, 1e-5F);
  }
}

TEST(Route, RowsAreIndependent) {
  constexpr int64_t kRows = 6;
  Samples samples(5);
  const std::vector<float> logits = samples.Floats(kRows * 48, 2);
  const std::vector<float> bias = samples.Floats(48, 0.2F);
  const std::vector<float> image_bias = samples.Floats(48, 0.2F);
  const uint8_t is_image[] = {0, 1, 1, 0, 1, 0};
  for (const Arithmetic arithmetic : kBothArithmetics) {
    harness::ExpectRowsAreIndependent(
        kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
          std::vector<int32_t> experts(static_cast<size_t>(n * 3));
          std::vector<float> weights(experts.size());
          route::Run({.logits = logits.data() + first * 48,
                      .n_rows = n,
                      .n_experts = 48,
                      .n_chosen = 3,
                      .bias = bias.data(),
                      .image_bias = image_bias.data(),
                      .is_image = is_image + first,
                      .scale = 1.5F,
                      .experts = experts.data(),
                      .weights = weights.data()},
                     stream);
          std::vector<uint8_t> bytes;
          for (int64_t row = 0; row < n; ++row) {
            harness::AppendBytes(
                std::vector<int32_t>(experts.begin() + row * 3, experts.begin() + row * 3 + 3),
                bytes);
            harness::AppendBytes(
                std::vector<float>(weights.begin() + row * 3, weights.begin() + row * 3 + 3),
                bytes);
          }
          return bytes;
        });
  }
}

}  // namespace
}  // namespace sluice::ops::route
