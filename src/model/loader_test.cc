#include "model/loader.h"

#include <gtest/gtest.h>

#include <string>

#include "env/posix/posix_env.h"
#include "model/deepseek_v41/tiny_test_impl.h"

namespace sluice::model {
namespace {

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
  while (!loader->done()) {
    ASSERT_TRUE(loader->Step().ok());
    EXPECT_GT(loader->progress().done_bytes, n_done);
    n_done = loader->progress().done_bytes;
    EXPECT_EQ(loader->progress().file, "model.safetensors");
  }
  EXPECT_EQ(n_done, n_total);
  const LoadedModel loaded = loader->Take();
  EXPECT_EQ(loaded.model->info().n_vocab, 512);
  EXPECT_EQ(loaded.model->info().window, 16);
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
                      "\"model_type\": \"llama\"");
  const Result<Loader> loader = Loader::Open(fs, deepseek_v41::TinyFolder());
  ASSERT_FALSE(loader.has_value());
  EXPECT_NE(loader.error().message().find("llama"), std::string_view::npos)
      << loader.error().message();
}

}  // namespace
}  // namespace sluice::model
