#include "model/deepseek_v41/presets.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "model/deepseek_v41/config_samples_test_impl.h"
#include "model/deepseek_v41/engram_hash.h"
#include "model/deepseek_v41/tensor_list.h"

namespace sluice::model::deepseek_v41 {
namespace {

// The config as text has every field that Parse reads.
std::string Reread(const std::string& text) {
  const Result<Config> config = Config::Parse(text);
  EXPECT_TRUE(config.has_value()) << config.error().message();
  return config ? ConfigText(*config) : "";
}

TEST(Presets, AreThoseOfTheSpecification) {
  EXPECT_EQ(ConfigText(FindPreset("tiny-a")->config), Reread(TinyAConfig()));
  EXPECT_EQ(ConfigText(FindPreset("mini-b")->config), Reread(MiniBConfig()));
  EXPECT_EQ(ConfigText(FindPreset("slice-c")->config), Reread(SliceCConfig()));
  EXPECT_EQ(FindPreset("tiny-b"), nullptr);
}

TEST(Presets, TheTextOfAConfigIsReadAsTheSameConfig) {
  for (const Preset& preset : Presets()) {
    EXPECT_TRUE(preset.config.Validate().ok());
    const std::string text = ConfigText(preset.config);
    EXPECT_EQ(Reread(text), text);
  }
  // One field that differs is seen: the comparison above compares something.
  Config config = FindPreset("tiny-a")->config;
  config.yarn_beta_slow = 2;
  EXPECT_NE(ConfigText(config), ConfigText(FindPreset("tiny-a")->config));
}

TEST(Presets, TheTextHasALineForEachField) {
  const std::string text = ConfigText(FindPreset("slice-c")->config);
  for (const std::string line :
       {"{\n  \"architectures\": [\"DeepseekV41ForCausalLM\"],\n",
        "\n    \"rms_norm_eps\": 1e-20,\n", "\n    \"kv_source_layer_ids\": [2, 4],\n",
        "\n    \"rope_scaling\": {\n      \"rope_type\": ",
        "\n    \"engram_num_embeddings\": [1574980],\n", "\n  }\n}\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

// Spec model.md §6.1, §6.2, §6.5; tiny-a with its three delimiters.
TEST(Presets, HaveTheKnownSizes) {
  const auto sum = [](std::string_view name) {
    const auto parts = SumByPart(ListTensors(FindPreset(name)->config));
    PartSum total;
    for (const PartSum& part : parts) total += part;
    return total;
  };
  EXPECT_EQ(sum("tiny-a").n_parameters, 7'716'438 + 384);
  EXPECT_EQ(sum("mini-b"), (PartSum{267'952'186, 176'213'280, 3'987}));
  EXPECT_EQ(sum("slice-c"), (PartSum{19'136'889'714, 13'418'488'808, 2'959}));
}

TEST(Presets, EngramTablesHaveARowForEveryHash) {
  for (const Preset& preset : Presets()) {
    const Config& c = preset.config;
    const EngramHash hash({.layer_ids = c.engram_layer_ids,
                           .max_ngram = c.engram_max_ngram_size,
                           .n_heads = c.engram_n_heads,
                           .vocab_size = c.engram_vocab_size,
                           .n_classes = c.engram_compressed_vocab_size});
    ASSERT_EQ(hash.layers.size(), c.engram_num_embeddings.size());
    for (size_t i = 0; i < hash.layers.size(); ++i) {
      EXPECT_EQ(hash.layers[i].n_rows, c.engram_num_embeddings[i]) << preset.name;
    }
  }
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
