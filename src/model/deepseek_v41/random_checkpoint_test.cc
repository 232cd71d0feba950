#include "model/deepseek_v41/random_checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "env/posix/posix_env.h"
#include "model/checkpoint/model_folder_test_impl.h"
#include "model/deepseek_v41/preset_tokens.h"
#include "model/deepseek_v41/presets.h"
#include "model/deepseek_v41/tiny_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

using Files = std::map<std::string, std::string>;

RandomCheckpoint::Params TinyParams(const std::string& folder, uint64_t seed) {
  const Preset& preset = *FindPreset("tiny-a");
  return {.config = preset.config,
          .source = {.seed = seed, .query_gain = preset.query_gain},
          .folder = folder,
          .side_files = *TokenFiles(preset, "")};
}

Files ReadFiles(const std::string& folder) {
  PosixEnv posix;
  FileSystem& fs = posix.env().fs;
  Files files;
  const std::vector<std::string> names = *fs.List(folder);
  for (const std::string& name : names) {
    files[name] = *fs.ReadWhole(folder + "/" + name, int64_t{1} << 30);
  }
  return files;
}

// At most n_steps.
Status Write(FileSystem& fs, RandomCheckpoint::Params params, int32_t n_steps = INT32_MAX) {
  RandomCheckpoint writer(fs, std::move(params));
  SLUICE_TRY(writer.Begin());
  while (!writer.done() && n_steps-- > 0) SLUICE_TRY(writer.Step());
  if (!writer.done()) return Status::Ok();
  EXPECT_EQ(writer.done_bytes(), writer.total_bytes());
  return Status::Ok();
}

class RandomCheckpointTest : public testing::Test {
 protected:
  Files Make(RandomCheckpoint::Params params) {
    const ModelFolder folder;
    params.folder = folder.path();
    const Status status = Write(fs_, std::move(params));
    EXPECT_TRUE(status.ok()) << status.message();
    return ReadFiles(folder.path());
  }

  PosixEnv posix_;
  FileSystem& fs_ = posix_.env().fs;
};

TEST_F(RandomCheckpointTest, EqualSeedsGiveEqualFilesWithAnyNumberOfThreads) {
  const Files one = Make(TinyParams("", 1));
  EXPECT_EQ(one.size(), 3u);
  RandomCheckpoint::Params threaded = TinyParams("", 1);
  threaded.n_threads = 3;
  EXPECT_EQ(Make(threaded), one);
  const Files other = Make(TinyParams("", 2));
  EXPECT_EQ(other.at("config.json"), one.at("config.json"));
  EXPECT_NE(other.at("model.safetensors"), one.at("model.safetensors"));
}

TEST_F(RandomCheckpointTest, ShardsHoldTheTensorsOfTheOneFile) {
  const ModelFolder one, several;
  ASSERT_TRUE(Write(fs_, TinyParams(one.path(), 1)).ok());
  RandomCheckpoint::Params params = TinyParams(several.path(), 1);
  params.shard_bytes = 2'000'000;
  ASSERT_TRUE(Write(fs_, params).ok());
  const Result<Checkpoint> a = Checkpoint::Open(fs_, one.path());
  const Result<Checkpoint> b = Checkpoint::Open(fs_, several.path());
  ASSERT_TRUE(a.has_value()) << a.error().message();
  ASSERT_TRUE(b.has_value()) << b.error().message();
  ASSERT_EQ(b->files().size(), 4u);
  EXPECT_EQ(b->files()[1].name, "model-00002-of-00004.safetensors");
  for (const Checkpoint::File& file : b->files()) EXPECT_LT(file.n_bytes, 2'100'000);
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  for (size_t i = 0; i < a->tensors().size(); ++i) {
    const ConstBytes left = a->View(a->tensors()[i]).bytes;
    const ConstBytes right = b->View(b->tensors()[i]).bytes;
    EXPECT_TRUE(std::equal(left.begin(), left.end(), right.begin(), right.end()));
  }
}

// What a prompt did, for the test below.
struct Seen {
  int32_t n_rows = 0;
  int32_t n_changed_by_bias = 0;  // rows whose experts are not those with the largest logits
  std::set<int32_t> experts;
  std::vector<float> router_logits;  // of the layer that was noted last
};

void NoteRouting(void* context, const TraceTensor& tensor) {
  auto* seen = static_cast<Seen*>(context);
  if (tensor.name == "router_logits") {
    const auto* at = static_cast<const float*>(tensor.data);
    seen->router_logits.assign(at, at + tensor.shape[0] * tensor.shape[1]);
  }
  if (tensor.name != "experts") return;
  const int64_t n_chosen = tensor.shape[1];
  const std::vector<float>& logits = seen->router_logits;
  const int64_t n_experts = std::ssize(logits) / tensor.shape[0];
  const auto* chosen = static_cast<const int32_t*>(tensor.data);
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    const std::span<const float> all(logits.data() + row * n_experts,
                                     static_cast<size_t>(n_experts));
    const std::set<int32_t> experts(chosen + row * n_chosen, chosen + (row + 1) * n_chosen);
    float least_chosen = INFINITY, most_other = -INFINITY;
    for (int32_t e = 0; e < n_experts; ++e) {
      const float logit = all[static_cast<size_t>(e)];
      (experts.contains(e) ? least_chosen : most_other) =
          experts.contains(e) ? std::min(least_chosen, logit) : std::max(most_other, logit);
    }
    seen->n_changed_by_bias += most_other > least_chosen ? 1 : 0;
    ++seen->n_rows;
    seen->experts.insert(experts.begin(), experts.end());
  }
}

// Writes the model, loads it as a server would and runs a prompt. In range: logits are finite and
// of the size that the head's gain gives a normed row, so nothing before it has vanished or
// exploded unseen; the rest is looked at in `seen`.
void CheckThatItRuns(FileSystem& fs,
                     RandomCheckpoint::Params params,
                     int32_t n_tokens,
                     Seen& seen) {
  const ModelFolder folder;
  params.folder = folder.path();
  ASSERT_TRUE(Write(fs, std::move(params)).ok());
  const Result<Checkpoint> checkpoint = Checkpoint::Open(fs, folder.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const Result<Config> config = Config::Parse(checkpoint->config_text());
  ASSERT_TRUE(config.has_value()) << config.error().message();
  Result<Weights> weights = Weights::Bind(*checkpoint, *config);
  ASSERT_TRUE(weights.has_value()) << weights.error().message();
  Result<std::vector<int32_t>> classes = LoadTokenClasses(fs, folder.path(), *config);
  ASSERT_TRUE(classes.has_value()) << classes.error().message();
  for (ValueCheck check(*checkpoint, *config); !check.done();) {
    const Status status = check.Step();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  DeepseekV41 model(
      {.config = *config, .weights = std::move(*weights), .token_classes = std::move(*classes)});
  TinyRun run({.n_seqs = 1, .model = &model});
  const std::vector<TokenId> tokens = SomeTokens(n_tokens);
  const Trace trace = {.context = &seen, .note = &NoteRouting};
  const Sequences::Part part = {.tokens = tokens, .n_logits = n_tokens};
  Result<Sequences::Outputs> out = run->Run({&part, 1}, {}, &trace);
  ASSERT_TRUE(out.has_value()) << out.error().message();
  double square = 0;
  for (const float logit : out->logits) {
    ASSERT_TRUE(std::isfinite(logit));
    square += double{logit} * logit / static_cast<double>(out->logits.size());
  }
  EXPECT_NEAR(std::sqrt(square), 2.5, 0.4);
  EXPECT_EQ(seen.n_rows, n_tokens * config->num_hidden_layers);
  EXPECT_EQ(std::ssize(seen.experts), config->n_routed_experts);
  EXPECT_GT(seen.n_changed_by_bias, seen.n_rows / 10);
  EXPECT_LT(seen.n_changed_by_bias, seen.n_rows * 9 / 10);
}

TEST_F(RandomCheckpointTest, TinyALoadsAndRunsInRange) {
  Seen seen;
  CheckThatItRuns(fs_, TinyParams("", 5), 97, seen);
}

TEST_F(RandomCheckpointTest, MiniBLoadsAndRunsInRange) {
  const Preset& preset = *FindPreset("mini-b");
  // Any map will do: the released tokenizer is not at hand.
  std::string map = "[0";
  for (int32_t id = 1; id < preset.config.vocab_size; ++id) {
    map += fmt::format(",{}", id % preset.config.engram_compressed_vocab_size);
  }
  RandomCheckpoint::Params params = {
      .config = preset.config,
      .source = {.seed = 5, .query_gain = preset.query_gain},
      .folder = "",
      .side_files = {{.name = "engram_token_map.json", .text = map + "]"}},
      .n_threads = 2};
  Seen seen;
  CheckThatItRuns(fs_, std::move(params), 80, seen);
}

TEST_F(RandomCheckpointTest, AFolderWithSomethingInItIsRefused) {
  const ModelFolder folder;
  folder.Write("notes", "mine");
  const Status status = Write(fs_, TinyParams(folder.path(), 1));
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.message(), folder.path() + ": is not empty; it has notes. Name a new folder");
  EXPECT_EQ(ReadFiles(folder.path()), (Files{{"notes", "mine"}}));
  EXPECT_EQ(Write(fs_, TinyParams(folder.path() + "/a/b", 1)).message(),
            folder.path() + "/a/b: its folder does not exist");
  EXPECT_TRUE(Write(fs_, TinyParams(folder.path() + "/a", 1), 0).ok());
}

// A disk of which little is left.
class SmallDisk : public FileSystem {
 public:
  explicit SmallDisk(FileSystem& fs) : fs_(fs) {}
  Result<std::string> ReadWhole(std::string_view path, int64_t n) override {
    return fs_.ReadWhole(path, n);
  }
  Result<MappedFile> Map(std::string_view path) override { return fs_.Map(path); }
  Result<int64_t> Size(std::string_view path) override { return fs_.Size(path); }
  Result<std::vector<std::string>> List(std::string_view path) override { return fs_.List(path); }
  Result<WallTime> ModifiedAt(std::string_view path) override { return fs_.ModifiedAt(path); }
  Status MakeFolder(std::string_view path) override { return fs_.MakeFolder(path); }
  Result<int64_t> FreeBytes(std::string_view) override { return int64_t{6'000'000}; }

 private:
  FileSystem& fs_;
};

TEST_F(RandomCheckpointTest, ADiskThatIsTooSmallIsToldBeforeAnythingIsWritten) {
  const ModelFolder folder;
  SmallDisk disk(fs_);
  const Status status = Write(disk, TinyParams(folder.path(), 1));
  EXPECT_EQ(status.code(), ErrorCode::kTooLarge);
  EXPECT_NE(status.message().find("bytes, and the disk has 6000000 left"), std::string::npos)
      << status.message();
  EXPECT_TRUE(ReadFiles(folder.path()).empty());
}

int WriteAndDie(FileSystem& fs, const RandomCheckpoint::Params& params, int32_t n_steps) {
  RandomCheckpoint writer(fs, params);
  SLUICE_CHECK(writer.Begin().ok());
  for (int32_t i = 0; i < n_steps && !writer.done(); ++i) SLUICE_CHECK(writer.Step().ok());
  raise(SIGKILL);
  return 0;
}

TEST_F(RandomCheckpointTest, KilledInTheMiddleItLeavesNoIncompleteFileUnderAFinalName) {
  RandomCheckpoint::Params params = TinyParams("", 1);
  params.shard_bytes = 2'000'000;
  const Files whole = Make(params);
  for (const int32_t n_steps : {0, 1, 50, 700, 1400}) {
    const ModelFolder folder;
    params.folder = folder.path();
    EXPECT_EXIT(std::exit(WriteAndDie(fs_, params, n_steps)), testing::KilledBySignal(SIGKILL), "");
    int32_t n_partial = 0;
    for (const auto& [name, text] : ReadFiles(folder.path())) {
      if (name.ends_with(".partial")) {
        ++n_partial;
      } else {
        EXPECT_EQ(text, whole.at(name)) << name;
      }
    }
    EXPECT_LE(n_partial, 1);
    EXPECT_EQ(n_partial > 0, n_steps > 0);
    EXPECT_FALSE(Checkpoint::Open(fs_, folder.path()).has_value());
  }
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
