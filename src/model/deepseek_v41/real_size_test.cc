// The released model in its true size without its weights: all 96,085 tensors in 48 sparse files,
// which read as zeros and take no disk but for the rows that are written here. 510 GB of address
// space; what matters is that no size and no offset is cut to 32 bits anywhere, and that memory
// stays flat (spec model.md §7.3 item 32).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "env/posix/posix_env.h"
#include "kernels/engram_lookup/op.h"
#include "model/checkpoint/model_folder_test_impl.h"
#include "model/deepseek_v41/config_samples_test_impl.h"
#include "model/deepseek_v41/tensor_list.h"
#include "model/deepseek_v41/weights.h"
#include "tensor/thread_team.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr int32_t kShards = 48;

std::string ShardName(int32_t shard) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, kShards);
}

// Engram tables in the last two shards, as in the release; the rest by layer.
int32_t ShardOf(const TensorSpec& spec) {
  if (spec.part == Part::kEngramTables) return spec.layer == 1 ? kShards - 2 : kShards - 1;
  if (spec.part == Part::kDraft) return kShards - 3 - spec.layer;
  return spec.layer + 1;
}

class RealSize : public testing::Test {
 protected:
  // Where a tensor's bytes lie.
  struct Place {
    std::string file;
    int64_t begin = 0;
  };

  void SetUp() override {
    std::vector<TensorSpec> specs = ListTensors(config_);
    // Wide values first, as writers do it.
    std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
      return std::pair(-SizeOf(a.dtype), a.name) < std::pair(-SizeOf(b.dtype), b.name);
    });
    std::vector<std::pair<std::string, std::string>> weight_map;
    int64_t n_total = 0;
    for (int32_t shard = 0; shard < kShards; ++shard) {
      std::vector<TensorToWrite> list;
      for (const TensorSpec& spec : specs) {
        if (ShardOf(spec) != shard) continue;
        list.push_back({.name = spec.name, .dtype = spec.dtype, .shape = spec.shape});
        weight_map.emplace_back(spec.name, ShardName(shard));
      }
      const std::string header = MakeHeader(list);
      auto at = static_cast<int64_t>(header.size());
      for (const TensorToWrite& tensor : list) {
        places_[std::string(tensor.name)] = {.file = ShardName(shard), .begin = at};
        at += DataBytes(tensor);
        n_total += DataBytes(tensor);
      }
      folder_.WriteSparse(ShardName(shard), header, at);
    }
    folder_.Write("config.json", ReleasedConfig());
    folder_.WriteIndex(weight_map, n_total);
  }

  void Patch(const std::string& tensor, int64_t offset, std::string_view bytes) {
    const Place& place = places_.at(tensor);
    folder_.Patch(place.file, place.begin + offset, bytes);
  }

  // Bytes of this process in memory, without those of files.
  int64_t PrivateBytes() {
    const std::string text = *posix_.env().fs.ReadWhole("/proc/self/status", 1 << 16);
    return std::strtoll(text.c_str() + text.find("RssAnon:") + 8, nullptr, 10) * 1024;
  }

  const Config config_ = *Config::Parse(ReleasedConfig());
  PosixEnv posix_;
  ModelFolder folder_{testing::TempDir()};
  std::map<std::string, Place> places_;
};

// Rows on both sides of 2^31 and 2^32 bytes, of 2^36, and the last one.
TEST_F(RealSize, EveryTensorIsFoundAndRowsBehindFourGigabytesAreRead) {
  constexpr int32_t kColumns = 256, kGroups = 8;
  const std::vector<int64_t> rows = {0,         (int64_t{1} << 31) / kColumns - 1,
                                     8388608,   (int64_t{1} << 32) / kColumns - 1,
                                     16777216,  16777217,
                                     268435456, 384006167};
  for (size_t i = 0; i < rows.size(); ++i) {
    // Code 0x38 is 1, and the scales are 2^i.
    Patch("layers.1.engram.embed.weight", rows[i] * kColumns, std::string(kColumns, 0x38));
    Patch("layers.1.engram.embed.scale", rows[i] * kGroups,
          std::string(kGroups, static_cast<char>(127 + i)));
  }
  Patch("layers.14.engram.embed.scale", int64_t{384016681} * kGroups + 7, "\x7B");
  Patch("head.weight", int64_t{129279} * 5120 * 2 + 5119 * 2, "\x80\x3F");
  Patch("layers.39.ffn.gate.weight", int64_t{383} * 5120 * 2, "\x80\x3F");

  const int64_t n_before = PrivateBytes();
  const Result<Checkpoint> checkpoint = Checkpoint::Open(posix_.env().fs, folder_.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->n_data_bytes(), 510'286'023'000);
  EXPECT_EQ(checkpoint->tensors().size(), 96'085u);
  const Result<Weights> weights = Weights::Bind(*checkpoint, config_);
  ASSERT_TRUE(weights.has_value()) << weights.error().message();

  const EngramWeights& engram = *weights->layers[1].engram;
  std::vector<Bf16> values(rows.size() * kColumns);
  ThreadTeam team(2);
  Stream stream = {.team = team};
  ops::engram_lookup::Run({.codes = engram.codes,
                           .scales = engram.scales,
                           .n_table_rows = engram.n_rows,
                           .head_dim = kColumns,
                           .table_rows = rows.data(),
                           .n_rows = static_cast<int64_t>(rows.size()),
                           .n_lookups = 1,
                           .out = values.data()},
                          stream);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(ToFloat(values[i]), static_cast<float>(1 << (i / kColumns))) << i;
  }
  const EngramWeights& last = *weights->layers[14].engram;
  EXPECT_EQ(last.n_rows, 384'016'682);
  EXPECT_EQ(last.scales[last.n_rows * kGroups - 1], 0x7B);
  const Matrix& head = weights->head;
  const Matrix& gate = weights->layers[39].ffn.gate;
  EXPECT_EQ(ToFloat(static_cast<const Bf16*>(head.data)[head.n_out * head.n_in - 1]), 1);
  EXPECT_EQ(ToFloat(static_cast<const Bf16*>(gate.data)[383 * gate.n_in]), 1);
  // What is known about 96,085 tensors, not what is in them.
  EXPECT_LT(PrivateBytes() - n_before, 512 << 20);
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
