// Config from the metadata of a GGUF file.

#include <fmt/format.h>

#include <algorithm>

#include "kernels/gqa_attention/op.h"
#include "model/checkpoint/untrusted_text.h"
#include "model/dense/config.h"
#include "model/dense/config_bounds_impl.h"

namespace sluice::model::dense {
namespace {

constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

Status Unsupported(std::string_view key, std::string_view has, std::string_view allowed) {
  return {ErrorCode::kUnsupported, fmt::format("{} is {}; it must be {}", key, has, allowed)};
}

// Keys of one architecture: "llama.block_count".
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  std::string Name(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  bool Has(std::string_view key) const { return file_.Has(Name(key)); }

  struct Range {
    int64_t min, max;
  };
  Result<int32_t> Int(std::string_view key, Range range) const {
    const std::string name = Name(key);
    SLUICE_TRY(const int64_t value, file_.Integer(name));
    if (value < range.min || value > range.max) {
      return Status::Invalid(fmt::format("{} is {}; it must be a whole number from {} to {}", name,
                                         value, range.min, range.max));
    }
    return static_cast<int32_t>(value);
  }
  Result<int32_t> Int(std::string_view key, Range range, int32_t otherwise) const {
    return Has(key) ? Int(key, range) : Result<int32_t>(otherwise);
  }
  Result<double> Float(std::string_view key, double min, double max) const {
    const std::string name = Name(key);
    SLUICE_TRY(const double value, file_.Float(name));
    if (!(value >= min && value <= max)) {
      return Status::Invalid(
          fmt::format("{} is {}; it must be a number from {} to {}", name, value, min, max));
    }
    return value;
  }

  // The key is absent or has that value.
  Status ExpectInt(std::string_view key, int64_t wanted) const {
    if (!Has(key)) return Status::Ok();
    const std::string name = Name(key);
    SLUICE_TRY(const int64_t value, file_.Integer(name));
    if (value == wanted) return Status::Ok();
    return Unsupported(name, std::to_string(value), std::to_string(wanted));
  }
  Status ExpectText(std::string_view key, std::string_view wanted) const {
    if (!Has(key)) return Status::Ok();
    const std::string name = Name(key);
    SLUICE_TRY(const std::string_view value, file_.String(name));
    if (value == wanted) return Status::Ok();
    return Unsupported(name, Quote(value), wanted);
  }

 private:
  const GgufFile& file_;
  const std::string architecture_;
};

Status ReadSizes(const Keys& keys, Config& config) {
  SLUICE_TRY(config.num_hidden_layers, keys.Int("block_count", {1, kMaxLayers}));
  SLUICE_TRY(config.hidden_size, keys.Int("embedding_length", {1, kMaxSize}));
  SLUICE_TRY(config.intermediate_size, keys.Int("feed_forward_length", {1, kMaxSize}));
  SLUICE_TRY(config.max_position_embeddings, keys.Int("context_length", {1, kMaxPositions}));
  SLUICE_TRY(config.num_attention_heads, keys.Int("attention.head_count", {1, kMaxHeads}));
  SLUICE_TRY(config.num_key_value_heads,
             keys.Int("attention.head_count_kv", {1, kMaxHeads}, config.num_attention_heads));
  SLUICE_TRY(config.head_dim, keys.Int("attention.key_length", {2, ops::gqa_attention::kMaxHeadDim},
                                       config.hidden_size / config.num_attention_heads));
  return Status::Ok();
}

Status ReadNumbers(const Keys& keys, Config& config) {
  SLUICE_TRY(config.rms_norm_eps, keys.Float("attention.layer_norm_rms_epsilon", kMinEps, kMaxEps));
  config.rope_theta = kDefaultRopeTheta;
  if (keys.Has("rope.freq_base")) {
    SLUICE_TRY(config.rope_theta, keys.Float("rope.freq_base", kMinRopeTheta, kMaxRopeTheta));
  }
  return Status::Ok();
}

// What would change the arithmetic and is not implemented.
Status ReadFixed(const GgufFile& file, const Keys& keys, const Config& config) {
  SLUICE_TRY(keys.ExpectInt("attention.value_length", config.head_dim));
  SLUICE_TRY(keys.ExpectInt("rope.dimension_count", config.head_dim));
  SLUICE_TRY(keys.ExpectInt("expert_count", 0));
  SLUICE_TRY(keys.ExpectInt("attention.sliding_window", 0));
  SLUICE_TRY(keys.ExpectText("rope.scaling.type", "none"));
  if (file.FindTensor("rope_freqs.weight") == nullptr) return Status::Ok();
  return {ErrorCode::kUnsupported,
          "tensor rope_freqs.weight: scaled rotations are not implemented"};
}

Result<int32_t> ReadToken(const GgufFile& file, std::string_view key) {
  if (!file.Has(key)) return -1;
  SLUICE_TRY(const int64_t id, file.Integer(key));
  if (id >= 0 && id < kMaxTokens) return static_cast<int32_t>(id);
  return Status::Invalid(
      fmt::format("{} is {}; it must be a whole number from 0 to {}", key, id, kMaxTokens - 1));
}

// The number of tokens is that of the embedding's rows; a key that says so, too, may be absent.
Status ReadVocabulary(const GgufFile& file, const Keys& keys, Config& config) {
  const GgufTensor* embedding = file.FindTensor(kEmbedding);
  if (embedding == nullptr) {
    return Status::Invalid(fmt::format("tensor {} is missing", kEmbedding));
  }
  const int64_t n = embedding->shape.front();
  if (n < kMinTokens || n > kMaxTokens) {
    return Status::Invalid(fmt::format("tensor {} has {} rows; there must be from {} to {} tokens",
                                       kEmbedding, n, kMinTokens, kMaxTokens));
  }
  config.vocab_size = static_cast<int32_t>(n);
  config.tie_word_embeddings = file.FindTensor(kHead) == nullptr;
  return keys.ExpectInt("vocab_size", n);
}

}  // namespace

Result<Config> Config::FromGguf(const GgufFile& file) {
  SLUICE_TRY(const std::string_view architecture, file.String(kArchitectureKey));
  if (std::ranges::find(kArchitectures, architecture) == std::end(kArchitectures)) {
    return Unsupported(kArchitectureKey, Quote(architecture),
                       fmt::format("one of {}", fmt::join(kArchitectures, ", ")));
  }
  Config config{.architecture = std::string(architecture)};
  const bool is_llama = architecture == kArchitectures[0];
  config.has_qkv_bias = !is_llama;
  config.pairing = is_llama ? ops::rotary::Pairing::kNeighbours : ops::rotary::Pairing::kHalves;
  const Keys keys(file, architecture);
  SLUICE_TRY(ReadSizes(keys, config));
  SLUICE_TRY(ReadNumbers(keys, config));
  SLUICE_TRY(ReadVocabulary(file, keys, config));
  SLUICE_TRY(config.bos_token_id, ReadToken(file, "tokenizer.ggml.bos_token_id"));
  SLUICE_TRY(config.eos_token_id, ReadToken(file, "tokenizer.ggml.eos_token_id"));
  SLUICE_TRY(Validate(config));
  SLUICE_TRY(ReadFixed(file, keys, config));
  return config;
}

}  // namespace sluice::model::dense
