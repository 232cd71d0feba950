#include "model/loader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"
#include "env/posix/posix_env.h"
#include "model/checkpoint/model_folder_test_impl.h"
#include "model/deepseek_v41/tiny_test_impl.h"
#include "model/dense/tiny_test_impl.h"

namespace sluice::model {
namespace {

std::string RevisionOf(const std::string& folder) {
  PosixEnv env;
  Result<Loader> loader = Loader::Open(env.env().fs, folder);
  SLUICE_CHECK(loader.has_value());
  ThreadTeam team(2);
  while (!loader->done()) SLUICE_CHECK(loader->Step(team).ok());
  return loader->Take().weights_revision;
}

// A file system in which one file reads differently.
class EditedFileSystem final : public FileSystem {
 public:
  EditedFileSystem(FileSystem& real, std::string_view from, std::string_view to)
      : real_(real), from_(from), to_(to) {}

  Result<std::string> ReadWhole(std::string_view path, int64_t max_bytes) override {
    SLUICE_TRY(std::string text, real_.ReadWhole(path, max_bytes));
    const size_t at = text.find(from_);
    if (at != std::string::npos) text.replace(at, from_.size(), to_);
    return text;
  }
  Result<MappedFile> Map(std::string_view path) override { return real_.Map(path); }
  Result<int64_t> Size(std::string_view path) override { return real_.Size(path); }
  Result<std::vector<std::string>> List(std::string_view folder) override {
    return real_.List(folder);
  }
  Result<WallTime> ModifiedAt(std::string_view path) override { return real_.ModifiedAt(path); }

 private:
  FileSystem& real_;
  const std::string from_;
  const std::string to_;
};

TEST(Loader, ReadsEveryWeightOnceAndTellsHowFarItIs) {
  PosixEnv env;
  Result<Loader> loader = Loader::Open(env.env().fs, deepseek_v41::TinyFolder());
  ASSERT_TRUE(loader.has_value()) << loader.error().message();
  const int64_t n_total = loader->progress().total_bytes;
  EXPECT_GT(n_total, 5'000'000);
  int64_t n_done = 0;
  ThreadTeam team(2);
  while (!loader->done()) {
    ASSERT_TRUE(loader->Step(team).ok());
    EXPECT_GT(loader->progress().done_bytes, n_done);
    n_done = loader->progress().done_bytes;
    EXPECT_EQ(loader->progress().file, "model.safetensors");
  }
  EXPECT_EQ(n_done, n_total);
  const LoadedModel loaded = loader->Take();
  EXPECT_EQ(loaded.model->info().n_vocab, 512);
  EXPECT_EQ(loaded.model->info().window, 16);
}

// Qwen2.5 has 151,936 rows for 151,665 tokens: nobody may be told of a token without a text.
TEST(Loader, RowsOfAHeadBeyondTheTokensAreLeftOut) {
  for (const char* name : dense::kTinyModels) {
    dense::Tiny whole(name);
    const int32_t n_vocab = whole.loaded.model->info().n_vocab;
    dense::Tiny cut(name, 1, n_vocab - 27);
    ASSERT_EQ(cut.loaded.model->info().n_vocab, n_vocab - 27);
    const std::vector<TokenId> prompt = {TokenId(3), TokenId(7), TokenId(11)};
    std::vector<float> wanted = whole.Append(0, prompt, 1);
    wanted.resize(wanted.size() - 27);
    EXPECT_EQ(cut.Append(0, prompt, 1), wanted) << name;
  }
}

TEST(Loader, RefusesTheTokenizerOfAnotherModel) {
  const auto refusal = [](const std::string& path, int32_t n_tokens) {
    PosixEnv env;
    Result<Loader> loader = Loader::Open(env.env().fs, path);
    SLUICE_CHECK(loader.has_value());
    return std::string(loader->KeepTokens(n_tokens).message());
  };
  const std::string llama = dense::GoldenFolder() + "/llama";
  EXPECT_EQ(refusal(llama, 131), "");
  EXPECT_EQ(refusal(llama, 132),
            "the tokenizer has 132 tokens and the model 131: it belongs to another");
  EXPECT_EQ(refusal(llama, 1),
            "the model's end token is 2 and the tokenizer has 1 tokens: it belongs to another");
  EXPECT_NE(refusal(deepseek_v41::TinyFolder(), 511), "") << "its heads are never padded";
}

// C60: a fine-tune has the names and shapes of its base.
TEST(Loader, C60AnyOtherByteIsAnotherRevision) {
  const ModelFolder folder;
  for (const char* name : {"config.json", "model.safetensors", "engram_token_map.json"}) {
    std::ifstream file(deepseek_v41::TinyFolder() + "/" + name, std::ios::binary);
    folder.Write(name, std::string(std::istreambuf_iterator<char>(file), {}));
  }
  const std::string revision = RevisionOf(folder.path());
  EXPECT_EQ(revision.size(), 64u);
  EXPECT_EQ(RevisionOf(deepseek_v41::TinyFolder()), revision) << "wherever it lies";
  PosixEnv env;
  const Result<Checkpoint> checkpoint = Checkpoint::Open(env.env().fs, folder.path());
  ASSERT_TRUE(checkpoint.has_value());
  for (const char* what : {"norm.weight", "embed.weight", "layers.1.engram.embed.weight"}) {
    const Checkpoint::Tensor* tensor = checkpoint->Find(what);
    ASSERT_NE(tensor, nullptr) << what;
    const int64_t at = tensor->entry.begin;
    const std::string old(1, static_cast<char>(checkpoint->View(*tensor).bytes[0]));
    const std::string other(1, static_cast<char>(old[0] ^ 1));
    folder.Patch("model.safetensors", at, other);
    EXPECT_NE(RevisionOf(folder.path()), revision) << what;
    folder.Patch("model.safetensors", at, old);
  }
  EXPECT_EQ(RevisionOf(folder.path()), revision);
}

TEST(Loader, TablesThatTheHashWouldMissAreRefused) {
  PosixEnv env;
  EditedFileSystem fs(env.env().fs, "\"engram_vocab_size\": 512", "\"engram_vocab_size\": 600");
  const Result<Loader> loader = Loader::Open(fs, deepseek_v41::TinyFolder());
  ASSERT_FALSE(loader.has_value());
  EXPECT_EQ(loader.error().param(), "engram_num_embeddings");
  EXPECT_NE(loader.error().message().find("3252"), std::string_view::npos);
}

TEST(Loader, AnotherArchitectureIsRefusedByName) {
  PosixEnv env;
  EditedFileSystem fs(env.env().fs, "\"model_type\": \"deepseek_v41\"",
                      "\"model_type\": \"mixtral\"");
  const Result<Loader> loader = Loader::Open(fs, deepseek_v41::TinyFolder());
  ASSERT_FALSE(loader.has_value());
  EXPECT_NE(loader.error().message().find("mixtral"), std::string_view::npos)
      << loader.error().message();
}

}  // namespace
}  // namespace sluice::model
