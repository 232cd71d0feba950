// What a dense model's files may be, and what they may not.

#include "model/dense/weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "model/checkpoint/model_folder_test_impl.h"
#include "model/dense/tiny_test_impl.h"

namespace sluice::model::dense {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A copy of a tiny model that a test may spoil.
struct Copied {
  explicit Copied(const std::string& name) {
    if (name.ends_with(".gguf")) {
      folder.Write(name, ReadFile(GoldenFolder() + "/" + name));
      return;
    }
    for (const char* file : {"config.json", "model.safetensors"}) {
      folder.Write(file, ReadFile(GoldenFolder() + "/" + name + "/" + file));
    }
  }
  // Loads what lies there; the revision of its weights.
  Result<std::string> Revision() const {
    PosixEnv env;
    SLUICE_TRY(Loader loader, Loader::Open(env.env().fs, folder.path()));
    ThreadTeam team(2);
    while (!loader.done()) SLUICE_TRY(loader.Step(team));
    return loader.Take().weights_revision;
  }
  void Replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = ReadFile(folder.PathOf(file));
    const size_t at = text.find(from);
    SLUICE_CHECK(at != std::string::npos);
    folder.Write(file, text.replace(at, from.size(), to));
  }

  ModelFolder folder;
};

void ExpectRefusal(const Copied& model, ErrorCode code, const std::string& message) {
  const Result<std::string> revision = model.Revision();
  ASSERT_FALSE(revision.has_value()) << message;
  EXPECT_EQ(revision.error().code(), code) << revision.error().message();
  EXPECT_NE(revision.error().message().find(message), std::string::npos)
      << revision.error().message();
}

TEST(DenseWeights, ATensorThatIsMissingOrUnknownIsNamed) {
  const Copied model("llama");
  model.Replace("model.safetensors", "layers.1.mlp.up_proj", "layers.1.mlp.ap_proj");
  ExpectRefusal(model, ErrorCode::kInvalidArgument,
                "tensor model.layers.1.mlp.up_proj.weight ([64, 96]) is missing");
  const Copied untied("llama");
  untied.Replace("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  ExpectRefusal(untied, ErrorCode::kInvalidArgument,
                "9 tensors have no place in this model; the first is model.layers.1");
}

TEST(DenseWeights, AShapeThatTheConfigDoesNotHaveIsRefusedWithBoth) {
  const Copied model("qwen2");
  model.Replace("config.json", "\"intermediate_size\": 112", "\"intermediate_size\": 111");
  ExpectRefusal(model, ErrorCode::kInvalidArgument,
                "mlp.gate_proj.weight is [112, 80]; the config makes it [111, 80]");
}

TEST(DenseWeights, ATypeThatIsNoWeightIsRefused) {
  const Copied model("llama");
  model.Replace("model.safetensors", "\"F32\"", "\"I32\"");
  ExpectRefusal(model, ErrorCode::kUnsupported, "is I32; this model's are F32, F16 or BF16");
}

TEST(DenseWeights, AValueThatIsNoNumberIsFoundWithItsPlace) {
  for (const char* name : {"llama", "llama.gguf"}) {
    const Copied model(name);
    PosixEnv env;
    const Result<ModelPlace> place = FindModel(env.env().fs, model.folder.path());
    ASSERT_TRUE(place.has_value());
    std::string file = "model.safetensors";
    std::string tensor = "model.layers.1.mlp.up_proj.weight";
    int64_t at = 0;
    {
      const Result<Source> source = Source::Open(env.env().fs, *place);
      ASSERT_TRUE(source.has_value()) << source.error().message();
      if (source->naming() == Naming::kGguf) {
        file = source->files()[0].name;
        tensor = "blk.1.ffn_up.weight";
      }
      at = source->Find(tensor)->begin;
    }
    // An infinite F32, and an infinite F16 scale.
    const bool is_gguf = file != "model.safetensors";
    model.folder.Patch(file, at,
                       is_gguf ? std::string("\x00\x7c", 2) : std::string("\x00\x00\x80\x7f", 4));
    ExpectRefusal(model, ErrorCode::kCorrupt, tensor);
  }
}

TEST(DenseWeights, AnyOtherByteIsAnotherRevision) {
  const Copied model("llama.gguf");
  const Result<std::string> revision = model.Revision();
  ASSERT_TRUE(revision.has_value()) << revision.error().message();
  EXPECT_EQ(revision->size(), 64u);
  EXPECT_EQ(*Copied("llama.gguf").Revision(), *revision) << "wherever it lies";
  PosixEnv env;
  int64_t at = 0;
  {
    const Result<Source> source = Source::Open(
        env.env().fs, {.kind = ModelPlace::Kind::kGguf, .path = model.folder.PathOf("llama.gguf")});
    ASSERT_TRUE(source.has_value());
    at = source->Find("blk.0.attn_v.weight")->begin;
  }
  const char old = ReadFile(model.folder.PathOf("llama.gguf"))[static_cast<size_t>(at) + 10];
  model.folder.Patch("llama.gguf", at + 10, std::string(1, static_cast<char>(old ^ 1)));
  EXPECT_NE(*model.Revision(), *revision);
}

TEST(DenseWeights, MatricesAreViewsAndTheHeadMayBeTheEmbedding) {
  PosixEnv env;
  for (const char* name : kTinyModels) {
    const Result<ModelPlace> place = FindModel(env.env().fs, GoldenFolder() + "/" + name);
    const Result<Source> source = Source::Open(env.env().fs, *place);
    ASSERT_TRUE(source.has_value()) << source.error().message();
    const Result<Weights> weights = Weights::Bind(*source);
    ASSERT_TRUE(weights.has_value()) << weights.error().message();
    const bool is_tied = source->config().tie_word_embeddings;
    EXPECT_EQ(weights->head.data == weights->embedding.data, is_tied) << name;
    const std::string gate = ListTensors(source->config(), source->naming())[8].name;
    const StoredTensor* stored = source->Find(is_tied ? gate : "lm_head.weight");
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(stored->matrix.data, stored->bytes.data());
  }
}

}  // namespace
}  // namespace sluice::model::dense
