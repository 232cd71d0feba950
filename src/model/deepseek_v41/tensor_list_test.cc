#include "model/deepseek_v41/tensor_list.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "model/deepseek_v41/config_samples_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

std::vector<TensorSpec> List(const std::string& json) {
  const Result<Config> config = Config::Parse(json);
  EXPECT_TRUE(config.has_value()) << config.status().message();
  return ListTensors(*config);
}

PartSum Total(const std::vector<TensorSpec>& tensors) {
  PartSum total;
  for (const PartSum& sum : SumByPart(tensors)) total += sum;
  return total;
}

const TensorSpec& Find(const std::vector<TensorSpec>& tensors, const std::string& name) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors[0];
}

// Spec model.md §2.4.
TEST(TensorList, TheReleasedModelHasTheKnownParts) {
  const std::vector<TensorSpec> tensors = List(ReleasedConfig());
  const std::array<PartSum, kNumParts> expected = {{
      {1'323'832'320, 2'647'664'640, 3},
      {5'064'696'320, 5'069'721'600, 520},
      {543'581'798'400, 288'777'830'400, 92'160},
      {1'415'577'600, 1'416'960'000, 240},
      {78'673'920, 157'409'280, 120},
      {39'323'760, 157'295'040, 240},
      {61'868'544, 81'835'008, 43},
      {409'600, 819'200, 80},
      {196'613'849'600, 202'758'032'400, 4},
      {314'654'720, 315'043'840, 8},
      {14'225'362'530, 7'932'874'632, 2'401},
      {485'268'480, 970'536'960, 266},
  }};
  const std::array<PartSum, kNumParts> sums = SumByPart(tensors);
  for (size_t i = 0; i < sums.size(); ++i) {
    const std::string_view name = NameOf(static_cast<Part>(i));
    EXPECT_EQ(sums[i].n_parameters, expected[i].n_parameters) << name;
    EXPECT_EQ(sums[i].n_bytes, expected[i].n_bytes) << name;
    EXPECT_EQ(sums[i].n_tensors, expected[i].n_tensors) << name;
  }
  const PartSum total = Total(tensors);
  EXPECT_EQ(total.n_parameters, 763'205'315'794);
  EXPECT_EQ(total.n_bytes, 510'286'023'000);
  EXPECT_EQ(total.n_tensors, 96'085);
}

// Spec model.md §6.1; the table leaves the three delimiters out.
TEST(TensorList, TinyAHasTheKnownParts) {
  const std::vector<TensorSpec> tensors = List(TinyAConfig());
  const int64_t expected[kNumParts] = {131'200, 591'408, 4'718'592,        294'912,
                                       24'960,  295'560, 41'152 + 180'320, 3'072,
                                       215'936, 247'808, 971'518,          384};
  const std::array<PartSum, kNumParts> sums = SumByPart(tensors);
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i].n_parameters, expected[i]) << NameOf(static_cast<Part>(i));
  }
  EXPECT_EQ(Total(tensors), (PartSum{7'716'438 + 384, 6'604'460, 1'800}));
}

TEST(TensorList, MiniBHasTheKnownTotals) {
  EXPECT_EQ(Total(List(MiniBConfig())), (PartSum{267'952'186, 176'213'280, 3'987}));
}

// Spec model.md §6.5; there the delimiters stand with the head, and routers, norms and
// hyper-connections are one row.
TEST(TensorList, SliceCHasTheKnownParts) {
  const std::vector<TensorSpec> tensors = List(SliceCConfig());
  const std::array<PartSum, kNumParts> sums = SumByPart(tensors);
  const auto sum = [&sums](std::initializer_list<Part> parts) {
    PartSum total;
    for (Part part : parts) total += sums[static_cast<size_t>(part)];
    return std::pair(total.n_parameters, total.n_bytes);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(sum({Part::kHead, Part::kVision}), Pair(1'323'847'680, 2'647'695'360));
  EXPECT_EQ(sum({Part::kAttention}), Pair(1'012'939'264, 1'013'944'320));
  EXPECT_EQ(sum({Part::kRoutedExperts}), Pair(13'589'544'960, 7'219'445'760));
  EXPECT_EQ(sum({Part::kSharedExperts}), Pair(283'115'520, 283'392'000));
  EXPECT_EQ(sum({Part::kRouters, Part::kLayerNorms, Part::kHyper}), Pair(9'913'520, 35'558'080));
  EXPECT_EQ(sum({Part::kIndexers}), Pair(24'216'832, 32'720'384));
  EXPECT_EQ(sum({Part::kEngramTables}), Pair(403'194'880, 415'794'720));
  EXPECT_EQ(sum({Part::kEngramProjections}), Pair(157'327'360, 157'521'920));
  EXPECT_EQ(sum({Part::kDraft}), Pair(2'332'789'698, 1'612'416'264));
  EXPECT_EQ(Total(tensors), (PartSum{19'136'889'714, 13'418'488'808, 2'959}));
}

TEST(TensorList, NamesAreUniqueAndScalesFollowTheirWeights) {
  const std::vector<TensorSpec> tensors = List(MiniBConfig());
  std::set<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(names.insert(tensors[i].name).second) << tensors[i].name;
    const bool has_scales =
        tensors[i].encoding == Encoding::kFp8Codes || tensors[i].encoding == Encoding::kFp4Codes;
    if (!has_scales) continue;
    ASSERT_LT(i + 1, tensors.size());
    EXPECT_EQ(tensors[i + 1].encoding, Encoding::kScales);
    const std::string base = tensors[i].name.substr(0, tensors[i].name.rfind('.'));
    EXPECT_EQ(tensors[i + 1].name, base + ".scale");
  }
}

TEST(TensorList, ShapesAreThoseOfTheSpecification) {
  const std::vector<TensorSpec> tensors = List(ReleasedConfig());
  struct Case {
    const char* name;
    DType dtype;
    Shape shape;
  };
  const Case cases[] = {{"layers.0.attn.wo_a.weight", DType::kF8E4m3, {8192, 4096}},
                        {"layers.39.attn.wo_a.scale", DType::kF8E8m0, {256, 128}},
                        {"layers.0.ffn.experts.383.w2.weight", DType::kI8, {5120, 1152}},
                        {"layers.0.ffn.experts.0.w2.scale", DType::kF8E8m0, {5120, 72}},
                        {"layers.3.hc_ffn_fn", DType::kF32, {24, 20480}},
                        {"layers.14.engram.embed.scale", DType::kF8E8m0, {384016682, 8}},
                        {"layers.1.engram.wkv.scale", DType::kF8E8m0, {800, 192}},
                        {"layers.2.attn.compressor.wgate.weight", DType::kBf16, {512, 5120}},
                        {"layers.36.attn.indexer.wq_b.scale", DType::kF8E8m0, {128, 40}},
                        {"mtp.0.main_proj.scale", DType::kF8E8m0, {160, 480}},
                        {"mtp.2.confidence_head.proj.weight", DType::kBf16, {1, 5376}},
                        {"mtp.1.ffn.gate.weight", DType::kBf16, {128, 5120}},
                        {"vision.blocks.31.mlp.w1.weight", DType::kBf16, {5632, 1024}},
                        {"aligner.w1.weight", DType::kBf16, {5120, 9216}}};
  for (const Case& c : cases) {
    EXPECT_EQ(Find(tensors, c.name).dtype, c.dtype) << c.name;
    EXPECT_EQ(Find(tensors, c.name).shape, c.shape) << c.name;
  }
  for (const TensorSpec& tensor : tensors) {
    EXPECT_NE(tensor.name, "layers.20.attn.compressor.wgate.weight");  // of ratio 1
  }
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
