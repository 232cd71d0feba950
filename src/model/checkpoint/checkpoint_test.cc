#include "model/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "env/posix/posix_env.h"
#include "model/checkpoint/model_folder_test_impl.h"

namespace sluice::model {
namespace {

// Notes what is opened.
class WatchedFiles : public FileSystem {
 public:
  explicit WatchedFiles(FileSystem& fs) : fs_(fs) {}
  Result<std::string> ReadWhole(std::string_view path, int64_t max_bytes) override {
    Note(path);
    return fs_.ReadWhole(path, max_bytes);
  }
  Result<MappedFile> Map(std::string_view path) override {
    Note(path);
    return fs_.Map(path);
  }
  Result<int64_t> Size(std::string_view path) override { return fs_.Size(path); }
  Result<std::vector<std::string>> List(std::string_view folder) override {
    return fs_.List(folder);
  }
  Result<WallTime> ModifiedAt(std::string_view path) override { return fs_.ModifiedAt(path); }

  std::multiset<std::string> opened;

 private:
  void Note(std::string_view path) { opened.emplace(path.substr(path.rfind('/') + 1)); }
  FileSystem& fs_;
};

constexpr const char* kShardA = "model-00001-of-00002.safetensors";
constexpr const char* kShardB = "model-00002-of-00002.safetensors";

class CheckpointFolder : public testing::Test {
 protected:
  // Tensor x (4 bytes) in the first shard, y and z (8 and 2 bytes) in the second.
  void WriteShards() {
    folder_.Write("config.json", "{}");
    folder_.Write(kShardA,
                  MakeHeader({{.name = "x", .dtype = DType::kF32, .shape = {1}}}) + "1234");
    folder_.Write(kShardB, MakeHeader({{.name = "z", .dtype = DType::kBf16, .shape = {1}},
                                       {.name = "y", .dtype = DType::kU8, .shape = {2, 4}}}) +
                               "abABCDEFGH");
    folder_.WriteIndex({{"x", kShardA}, {"y", kShardB}, {"z", kShardB}}, 14);
  }
  Result<Checkpoint> Open() { return Checkpoint::Open(files_, folder_.path()); }
  std::string Refusal() {
    const Result<Checkpoint> checkpoint = Open();
    return checkpoint.has_value() ? "accepted" : std::string(checkpoint.error().message());
  }
  static std::string Text(ConstBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string IndexError(std::string_view what) {
    return fmt::format("{}/model.safetensors.index.json: {}", folder_.path(), what);
  }

  PosixEnv posix_;
  WatchedFiles files_{posix_.env().fs};
  ModelFolder folder_{testing::TempDir()};
};

TEST_F(CheckpointFolder, TensorsOfAllShardsAreFoundByName) {
  WriteShards();
  const Result<Checkpoint> checkpoint = Open();
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->config_text(), "{}");
  EXPECT_EQ(checkpoint->n_data_bytes(), 14);
  ASSERT_EQ(checkpoint->files().size(), 2u);
  EXPECT_EQ(checkpoint->files()[1].name, kShardB);
  ASSERT_EQ(checkpoint->tensors().size(), 3u);
  const TensorView y = checkpoint->View(*checkpoint->Find("y"));
  EXPECT_EQ(Text(y.bytes), "ABCDEFGH");
  EXPECT_EQ(*y.shape, (Shape{2, 4}));
  EXPECT_EQ(y.file, 1);
  EXPECT_EQ(Text(checkpoint->View(*checkpoint->Find("x")).bytes), "1234");
  EXPECT_EQ(checkpoint->Find("w"), nullptr);
  EXPECT_EQ(checkpoint->Find("zz"), nullptr);
}

TEST_F(CheckpointFolder, OneFileNeedsNoIndex) {
  folder_.Write("config.json", "{}");
  folder_.Write("model.safetensors",
                MakeHeader({{.name = "x", .dtype = DType::kF32, .shape = {1}}}) + "1234");
  const Result<Checkpoint> checkpoint = Open();
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(Text(checkpoint->View(checkpoint->tensors()[0]).bytes), "1234");
}

// Row S8 of spec users.md §5: nothing in a model folder is code, and nothing outside is opened.
TEST_F(CheckpointFolder, OnlyTheKnownFilesAreOpenedAndEachOnce) {
  WriteShards();
  folder_.Write("config.json", R"({"auto_map": {"AutoModel": "evil.py--Model"}})");
  folder_.Write("evil.py", "import os");
  folder_.Write("pytorch_model.bin", "\x80\x02}");
  folder_.Write("tokenizer_config.json", R"({"chat_template": "{{ ''.__class__.__mro__ }}"})");
  ASSERT_TRUE(Open().has_value());
  EXPECT_EQ(files_.opened, (std::multiset<std::string>{"config.json", kShardA, kShardB,
                                                       "model.safetensors.index.json"}));
}

TEST_F(CheckpointFolder, FilesOutsideTheFolderAreRefused) {
  WriteShards();
  for (const char* name :
       {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "x.bin", "", ".safetensors",
        "..safetensors", "a b.safetensors", "x\n.safetensors", "x\x01.safetensors"}) {
    folder_.WriteIndex({{"x", name}}, 4);
    EXPECT_NE(Refusal().find("plain name of a .safetensors file"), std::string::npos) << name;
  }
  EXPECT_EQ(files_.opened.count("passwd"), 0u);
}

// Symptom: `sluice inspect` waited for ever for somebody to write into config.json.
TEST_F(CheckpointFolder, APipeIsNotWaitedFor) {
  for (const char* name : {"config.json", "model.safetensors.index.json", "model.safetensors"}) {
    std::remove(folder_.PathOf(name).c_str());
    ASSERT_EQ(std::system(("mkfifo " + folder_.PathOf(name)).c_str()), 0);
    EXPECT_EQ(Refusal(), folder_.PathOf(name) + ": is not a regular file");
    std::remove(folder_.PathOf(name).c_str());
    folder_.Write("config.json", "{}");
  }
}

TEST_F(CheckpointFolder, WhatIsMissingIsNamed) {
  const std::string& path = folder_.path();
  EXPECT_EQ(Refusal(), path + "/config.json: no such file");
  folder_.Write("config.json", "{}");
  EXPECT_EQ(Refusal(), path + "/model.safetensors: no such file");
  folder_.WriteIndex({{"x", "gone.safetensors"}}, 4);
  EXPECT_EQ(Refusal(), path + "/gone.safetensors: no such file");
}

TEST_F(CheckpointFolder, IndexAndFilesNameTheSameTensors) {
  WriteShards();
  folder_.WriteIndex({{"x", kShardA}, {"z", kShardB}}, 14);
  EXPECT_EQ(Refusal(),
            IndexError(fmt::format("weight_map lacks tensor y, which is in {}", kShardB)));
  folder_.WriteIndex({{"w", kShardA}, {"x", kShardA}, {"y", kShardB}, {"z", kShardB}}, 14);
  EXPECT_EQ(Refusal(), IndexError(fmt::format(
                           "weight_map says that tensor \"w\" is in {}; it is not", kShardA)));
  folder_.WriteIndex({{"x", kShardA}, {"y", kShardA}, {"z", kShardB}}, 14);
  EXPECT_EQ(Refusal(), IndexError(fmt::format("weight_map says that tensor y is in {}; it is in {}",
                                              kShardA, kShardB)));
  folder_.WriteIndex({{"x", kShardA}, {"y", kShardB}, {"z", kShardB}}, 15);
  EXPECT_EQ(Refusal(), IndexError("total_size is 15, and the tensors have 14 bytes"));
}

TEST_F(CheckpointFolder, ATensorIsInOneFileOnly) {
  WriteShards();
  folder_.Write(kShardA, MakeHeader({{.name = "z", .dtype = DType::kBf16, .shape = {1}}}) + "12");
  folder_.WriteIndex({{"z", kShardA}, {"y", kShardB}}, 12);
  EXPECT_EQ(Refusal(),
            fmt::format("{}: tensor z is in {} and in {}", folder_.path(), kShardA, kShardB));
}

TEST_F(CheckpointFolder, BrokenFilesAreNamed) {
  WriteShards();
  folder_.Write(kShardB, MakeHeader({{.name = "y", .dtype = DType::kU8, .shape = {8}}}) + "ABC");
  EXPECT_EQ(Refusal(), fmt::format("{}/{}: tensor y: data_offsets [0, 8] in a file with 3 bytes of "
                                   "data: it was cut short",
                                   folder_.path(), kShardB));
  folder_.Write(kShardB, "");
  EXPECT_NE(Refusal().find(fmt::format("{}: has 0 bytes", kShardB)), std::string::npos);
}

TEST_F(CheckpointFolder, AnIndexThatIsNoneIsRefused) {
  WriteShards();
  const char* cases[][2] = {
      {"", "invalid JSON"},
      {"[]", "weight_map must be an object"},
      {"{}", "weight_map must be an object"},
      {R"({"weight_map": {}})", "weight_map must be an object"},
      {R"({"weight_map": []})", "weight_map must be an object"},
      {R"({"weight_map": {"x": 1}})", "the file of tensor \"x\" must be a string"},
      {R"({"weight_map": {"x": null}})", "must be a string"},
      {R"({"metadata": {"total_size": "14"}, "weight_map":
           {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors",
            "z": "model-00002-of-00002.safetensors"}})",
       "total_size is \"14\", and the tensors have 14 bytes"}};
  for (const auto& [text, message] : cases) {
    folder_.Write("model.safetensors.index.json", text);
    EXPECT_NE(Refusal().find(message), std::string::npos) << Refusal();
  }
  folder_.Write("model.safetensors.index.json", std::string(100'000, '['));
  EXPECT_NE(Refusal().find("invalid JSON"), std::string::npos);
}

}  // namespace
}  // namespace sluice::model
