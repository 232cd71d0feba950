#include "model/deepseek_v41/weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "env/posix/posix_env.h"
#include "model/checkpoint/model_folder_test_impl.h"
#include "model/deepseek_v41/config_samples_test_impl.h"
#include "model/deepseek_v41/tensor_list.h"

namespace sluice::model::deepseek_v41 {
namespace {

// A whole checkpoint of the micro model, in which a test changes one thing. Every value is fine:
// bf16 and float 0, scales 2^0, codes 0x11.
class MicroFolder : public testing::Test {
 protected:
  MicroFolder() {
    config_ = *Config::Parse(MicroConfig());
    for (const TensorSpec& spec : ListTensors(config_)) {
      names_.push_back(spec.name);
      tensors_[spec.name] = {spec.dtype, spec.shape};
      const auto n_bytes = static_cast<size_t>(spec.n_bytes());
      const bool is_codes = spec.encoding != Encoding::kPlain;
      const char fill = spec.encoding == Encoding::kScales ? 127 : is_codes ? 0x11 : 0;
      data_[spec.name] = std::string(n_bytes, fill);
    }
  }

  // Every seventh tensor: all roles, and a file for each is written in moderate time.
  std::vector<TensorSpec> Sample() const {
    std::vector<TensorSpec> sample;
    const std::vector<TensorSpec> all = ListTensors(config_);
    for (size_t i = 0; i < all.size(); i += 7) sample.push_back(all[i]);
    return sample;
  }

  struct Kind {
    DType dtype = DType::kBf16;
    Shape shape;
  };
  void Add(const std::string& name, Kind kind, std::string data) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    tensors_[name] = std::move(kind);
    data_[name] = std::move(data);
  }
  void Remove(const std::string& name) { std::erase(names_, name); }
  // Before all others, which then begin at odd bytes.
  static constexpr const char* kOddByte = "vision.odd";
  void AddOddByte() { Add(kOddByte, {DType::kU8, {1}}, "x"); }

  // Wide values first, as writers do it, so that each begins at a multiple of its size.
  int64_t Rank(const std::string& name) {
    return name == kOddByte ? -100 : -SizeOf(tensors_[name].dtype);
  }

  Result<Weights> Bind() {
    std::sort(names_.begin(), names_.end(), [this](const auto& a, const auto& b) {
      return std::pair(Rank(a), a) < std::pair(Rank(b), b);
    });
    std::vector<TensorToWrite> list;
    std::string data;
    for (const std::string& name : names_) {
      list.push_back({.name = name, .dtype = tensors_[name].dtype, .shape = tensors_[name].shape});
      data += data_[name];
    }
    folder_.Write("config.json", MicroConfig());
    folder_.Write("model.safetensors", MakeHeader(list) + data);
    SLUICE_TRY(Checkpoint opened, Checkpoint::Open(posix_.env().fs, folder_.path()));
    checkpoint_.emplace(std::move(opened));
    return Weights::Bind(*checkpoint_, config_);
  }
  std::string Refusal() {
    const Result<Weights> weights = Bind();
    return weights.has_value() ? "accepted" : std::string(weights.error().message());
  }
  // Of the values, once bound.
  std::string Complaint() {
    const Result<Weights> weights = Bind();
    EXPECT_TRUE(weights.has_value()) << weights.status().message();
    ValueCheck check(*checkpoint_, config_);
    while (!check.done()) {
      if (const Status status = check.Step(); !status.ok()) {
        EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
        return std::string(status.message());
      }
    }
    EXPECT_EQ(check.done_bytes(), check.total_bytes());
    return "";
  }
  std::string ErrorIn(std::string_view file_error) {
    return fmt::format("{}/model.safetensors: {}", folder_.path(), file_error);
  }

  PosixEnv posix_;
  ModelFolder folder_{testing::TempDir()};
  Config config_;
  std::vector<std::string> names_;
  std::map<std::string, Kind> tensors_;
  std::map<std::string, std::string> data_;
  std::optional<Checkpoint> checkpoint_;
};

TEST_F(MicroFolder, EveryRoleHasItsTensor) {
  const Result<Weights> bound = Bind();
  ASSERT_TRUE(bound.has_value()) << bound.error().message();
  const Weights& w = *bound;
  EXPECT_EQ(w.embed.n_out, 64);
  EXPECT_EQ(w.embed.n_in, 32);
  EXPECT_EQ(w.EmbeddingRow(3), static_cast<const Bf16*>(w.embed.data) + 96);
  ASSERT_EQ(w.layers.size(), 4u);
  const bool has_compressor[] = {false, true, true, false};
  const bool has_index[] = {false, true, true, true};
  for (size_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(w.layers[layer].compressor.has_value(), has_compressor[layer]) << layer;
    EXPECT_EQ(w.layers[layer].index.has_value(), has_index[layer]) << layer;
    EXPECT_EQ(w.layers[layer].engram.has_value(), layer == 1) << layer;
    EXPECT_EQ(w.layers[layer].ffn.experts.size(), 2u);
    EXPECT_NE(w.layers[layer].ffn.bias_vl, nullptr);
  }
  EXPECT_NE(w.layers[1].compressor->wgate.data, nullptr);
  EXPECT_EQ(w.layers[2].compressor->wgate.data, nullptr);  // ratio 1
  EXPECT_EQ(w.layers[1].engram->n_rows, 100);
  ASSERT_TRUE(w.draft.has_value());
  EXPECT_EQ(w.draft->main_proj.n_in, 64);  // two taps
  EXPECT_EQ(w.draft->stages.size(), 1u);
  EXPECT_EQ(w.draft->confidence.n_in, 64);
  EXPECT_NE(w.image_start, nullptr);
}

TEST_F(MicroFolder, MatricesHaveTheFormatOfTheirTensors) {
  const Weights w = *Bind();
  const AttentionWeights& attn = w.layers[0].attn;
  EXPECT_EQ(attn.wq_b.format, MatrixFormat::kFp8);
  EXPECT_EQ(attn.wq_b.n_out, 64);
  EXPECT_EQ(attn.wq_b.n_in, 32);
  EXPECT_EQ(attn.wq_b.scales[1], 127);
  const Matrix& w2 = w.layers[0].ffn.experts[1].w2;
  EXPECT_EQ(w2.format, MatrixFormat::kFp4);
  EXPECT_EQ(w2.n_in, 32);  // 16 bytes
  EXPECT_EQ(w.layers[0].hc_attn.fn.format, MatrixFormat::kF32);
  EXPECT_EQ(w.layers[0].hc_attn.fn.n_in, 128);
  EXPECT_EQ(w.layers[0].ffn.gate.format, MatrixFormat::kBf16);
  // Two different experts are two different places.
  EXPECT_NE(w.layers[0].ffn.experts[0].w1.data, w.layers[0].ffn.experts[1].w1.data);
}

TEST_F(MicroFolder, EveryTensorMustBeThere) {
  for (const TensorSpec& spec : Sample()) {
    if (spec.is_optional) continue;
    const std::vector<std::string> all = names_;
    Remove(spec.name);
    EXPECT_EQ(
        Refusal(),
        fmt::format("{}: 1 tensors that config.json asks for are missing, the first is {} ({} "
                    "{})",
                    folder_.path(), spec.name, NameOf(spec.dtype), ToString(spec.shape)));
    names_ = all;
  }
}

TEST_F(MicroFolder, WhatOnlyImagesNeedMayBeAbsent) {
  for (const TensorSpec& spec : ListTensors(config_)) {
    if (spec.is_optional) Remove(spec.name);
  }
  const Result<Weights> weights = Bind();
  ASSERT_TRUE(weights.has_value()) << weights.error().message();
  EXPECT_EQ(weights->image_end, nullptr);
  EXPECT_EQ(weights->layers[0].ffn.bias_vl, nullptr);
}

TEST_F(MicroFolder, EveryTensorHasItsShapeAndType) {
  for (const TensorSpec& spec : Sample()) {
    const Kind right = tensors_[spec.name];
    Kind wrong = right;
    wrong.shape.push_back(1);
    Add(spec.name, wrong, data_[spec.name]);
    EXPECT_EQ(Refusal(), ErrorIn(fmt::format("tensor {}: is {} {}; config.json makes it {} {}",
                                             spec.name, NameOf(spec.dtype), ToString(wrong.shape),
                                             NameOf(spec.dtype), ToString(spec.shape))));
    Add(spec.name, right, data_[spec.name]);
  }
  Add("norm.weight", {DType::kI8, {64}}, data_["norm.weight"]);
  EXPECT_EQ(Refusal(), ErrorIn("tensor norm.weight: is I8 [64]; config.json makes it BF16 [32]"));
}

TEST_F(MicroFolder, UnknownTensorsAreListed) {
  Add("layers.0.attn.ape", {DType::kU8, {2}}, "ab");
  Add("head_2", {DType::kU8, {2}}, "ab");
  EXPECT_EQ(Refusal(), folder_.path() +
                           ": 2 tensors have no place in this model: head_2, "
                           "layers.0.attn.ape");
  for (int i = 0; i < 20; ++i) Add(fmt::format("more.{}", i), {DType::kU8, {1}}, "a");
  EXPECT_TRUE(Refusal().ends_with(", ..."));
  EXPECT_LT(Refusal().size(), 300u);
}

TEST_F(MicroFolder, TheImageEncoderIsLetPass) {
  Add("vision.norm.weight", {DType::kBf16, {2}}, "abcd");
  Add("aligner.w1.bias", {DType::kBf16, {1}}, "ab");
  const Result<Weights> weights = Bind();
  ASSERT_TRUE(weights.has_value()) << weights.error().message();
  EXPECT_EQ(weights->n_unused_tensors, 2);
}

TEST_F(MicroFolder, ValuesBeginAtTheirOwnSize) {
  AddOddByte();
  const std::string message = Refusal();
  EXPECT_NE(message.find("begins at byte"), std::string::npos) << message;
  EXPECT_NE(message.find("values must begin at a multiple of"), std::string::npos);
}

TEST_F(MicroFolder, GoodValuesPass) {
  EXPECT_EQ(Complaint(), "");
  for (unsigned char code : {64, 190}) {
    data_["layers.0.attn.wkv.scale"][0] = static_cast<char>(code);
    EXPECT_EQ(Complaint(), "") << int{code};
  }
  // The largest code, and every FP4 code.
  data_["layers.0.attn.wkv.weight"][7] = static_cast<char>(0xFE);
  data_["layers.0.ffn.experts.0.w1.weight"][7] = static_cast<char>(0xFF);
  EXPECT_EQ(Complaint(), "");
}

TEST_F(MicroFolder, ScalesOutOfRangeAreNamed) {
  for (unsigned char code : {0, 63, 191, 255}) {
    data_["layers.3.ffn.experts.1.w2.scale"][5] = static_cast<char>(code);
    EXPECT_EQ(Complaint(), ErrorIn(fmt::format("tensor layers.3.ffn.experts.1.w2.scale: scale 5 "
                                               "has code {}; codes go from 64 to 190",
                                               code)));
  }
}

TEST_F(MicroFolder, ValuesThatAreNoNumbersAreNamed) {
  const auto good = data_;
  data_["mtp.0.main_proj.weight"][2047] = 0x7F;
  EXPECT_EQ(Complaint(), ErrorIn("tensor mtp.0.main_proj.weight: value 2047 has E4M3 code 0x7f, "
                                 "which is NaN"));
  data_["mtp.0.main_proj.weight"][2047] = static_cast<char>(0xFF);
  EXPECT_NE(Complaint().find("E4M3 code 0xff"), std::string::npos);
  data_ = good;
  data_["embed.weight"].replace(2 * 100, 2, "\x80\x7F");  // infinity
  EXPECT_EQ(Complaint(), ErrorIn("tensor embed.weight: value 100 is infinite or NaN"));
  data_ = good;
  data_["layers.2.hc_ffn_base"].replace(4 * 23, 4, std::string("\x01\x00\x80\xFF", 4));  // NaN
  EXPECT_EQ(Complaint(), ErrorIn("tensor layers.2.hc_ffn_base: value 23 is infinite or NaN"));
}

TEST_F(MicroFolder, EngramTablesAreNotRead) {
  data_["layers.1.engram.embed.scale"][0] = 0;
  data_["layers.1.engram.embed.weight"][0] = 0x7F;
  EXPECT_EQ(Complaint(), "");
  const Result<Weights> weights = Bind();
  const ValueCheck check(*checkpoint_, config_);
  EXPECT_EQ(check.total_bytes(), checkpoint_->n_data_bytes() - 100 * 33);
}

// The checkpoint that an independent program wrote (shared/golden/tiny-a).
TEST(TinyA, IsBoundAndChecked) {
  const std::string folder = std::string(SLUICE_SOURCE_DIR) + "/../shared/golden/tiny-a";
  PosixEnv posix;
  const Result<Checkpoint> checkpoint = Checkpoint::Open(posix.env().fs, folder);
  if (!checkpoint.has_value() && checkpoint.error().code() == ErrorCode::kNotFound) {
    GTEST_SKIP() << folder << " is not there";
  }
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const Result<Config> config = Config::Parse(checkpoint->config_text());
  ASSERT_TRUE(config.has_value()) << config.error().message();
  const Result<Weights> weights = Weights::Bind(*checkpoint, *config);
  ASSERT_TRUE(weights.has_value()) << weights.error().message();
  ValueCheck check(*checkpoint, *config);
  while (!check.done()) {
    const Status status = check.Step();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(checkpoint->tensors().size(), 1800u);
  EXPECT_EQ(weights->layers[4].engram->n_rows, 3496);
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
