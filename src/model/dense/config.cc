// Config from config.json.

#include "model/dense/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/limits.h"
#include "kernels/gqa_attention/op.h"
#include "model/checkpoint/config_reader.h"
#include "model/checkpoint/untrusted_text.h"
#include "model/dense/config_bounds_impl.h"

namespace sluice::model::dense {
namespace {

struct IntField {
  FieldName name;
  int32_t Config::* field;
  int64_t min, max;
};

constexpr IntField kIntFields[] = {
    {{"vocab_size", nullptr}, &Config::vocab_size, kMinTokens, kMaxTokens},
    {{"hidden_size", nullptr}, &Config::hidden_size, 1, kMaxSize},
    {{"intermediate_size", nullptr}, &Config::intermediate_size, 1, kMaxSize},
    {{"num_hidden_layers", nullptr}, &Config::num_hidden_layers, 1, kMaxLayers},
    {{"num_attention_heads", nullptr}, &Config::num_attention_heads, 1, kMaxHeads},
    {{"max_position_embeddings", nullptr}, &Config::max_position_embeddings, 1, kMaxPositions},
};

// A field that has one value which is implemented, as JSON text; it may be absent, or null where
// that is among the values.
struct FixedField {
  FieldName name;
  std::string_view allowed;
};

constexpr FixedField kFixedFields[] = {
    {{"hidden_act", nullptr}, R"("silu")"},
    {{"attention_bias", nullptr}, "false or null"},
    {{"mlp_bias", nullptr}, "false or null"},
    {{"use_sliding_window", nullptr}, "false or null"},
    {{"rope_parameters.rope_type", nullptr}, R"("default")"},
    {{"partial_rotary_factor", nullptr}, "1 or 1.0 or null"},
    {{"pretraining_tp", nullptr}, "1 or null"},
    {{"quantization_config", nullptr}, "null"},
};

// What model_type says; errors list what is known.
Status ReadArchitecture(const ConfigReader& reader, JsonValue root, Config& config) {
  SLUICE_TRY(reader.Expect({"model_type", nullptr}, R"("llama" or "qwen2")", true));
  config.architecture = root.Find("model_type").AsString();
  const bool is_llama = config.architecture == kArchitectures[0];
  config.has_qkv_bias = !is_llama;
  return reader.Expect({"architectures", nullptr},
                       is_llama ? R"(["LlamaForCausalLM"])" : R"(["Qwen2ForCausalLM"])", false);
}

// One kind of rotation, and one kind of layer.
Status ReadFixed(const ConfigReader& reader, JsonValue root) {
  for (const FixedField& field : kFixedFields) {
    SLUICE_TRY(reader.Expect(field.name, field.allowed, false));
  }
  if (reader.HasObject("rope_scaling")) {
    SLUICE_TRY(
        reader.Expect({"rope_scaling.rope_type", "rope_scaling.type"}, R"("default")", true));
  } else {
    SLUICE_TRY(reader.Expect({"rope_scaling", nullptr}, "null", false));
  }
  for (const JsonValue type : root.Find("layer_types").elements()) {
    if (type.is_string() && type.AsString() == "full_attention") continue;
    return Status(ErrorCode::kUnsupported,
                  fmt::format("config.json: layer_types has {}; each must be \"full_attention\"",
                              Shorten(type.ToText())));
  }
  return Status::Ok();
}

// A field with a default.
Result<int32_t> ReadInt(const ConfigReader& reader, const IntField& field, int32_t otherwise) {
  if (!reader.Has(field.name) || reader.IsNull(field.name)) return otherwise;
  SLUICE_TRY(const int64_t value, reader.Int(field.name, {.min = field.min, .max = field.max}));
  return static_cast<int32_t>(value);
}

// An id, a list of ids of which the first counts, or nothing.
Result<int32_t> ReadToken(const ConfigReader& reader, JsonValue root, const char* name) {
  const JsonValue value = root.Find(name);
  if (!value || value.is_null()) return -1;
  constexpr ConfigReader::Range kIds = {.min = 0, .max = kMaxTokens - 1};
  if (value.is_array() && value.size() > 0) {
    SLUICE_TRY(const std::vector<int64_t> ids, reader.List({name, nullptr}, kIds));
    return static_cast<int32_t>(ids[0]);
  }
  SLUICE_TRY(const int64_t id, reader.Int({name, nullptr}, kIds));
  return static_cast<int32_t>(id);
}

Status ReadSizes(const ConfigReader& reader, Config& config) {
  for (const IntField& field : kIntFields) {
    SLUICE_TRY(const int64_t value, reader.Int(field.name, {.min = field.min, .max = field.max}));
    config.*field.field = static_cast<int32_t>(value);
  }
  constexpr IntField kKvHeads = {{"num_key_value_heads", nullptr}, nullptr, 1, kMaxHeads};
  constexpr IntField kHeadDim = {
      {"head_dim", nullptr}, nullptr, 2, ops::gqa_attention::kMaxHeadDim};
  SLUICE_TRY(config.num_key_value_heads, ReadInt(reader, kKvHeads, config.num_attention_heads));
  SLUICE_TRY(config.head_dim,
             ReadInt(reader, kHeadDim, config.hidden_size / config.num_attention_heads));
  return Status::Ok();
}

Status ReadNumbers(const ConfigReader& reader, Config& config) {
  SLUICE_TRY(config.rms_norm_eps, reader.Double({"rms_norm_eps", nullptr}, kMinEps, kMaxEps));
  config.rope_theta = kDefaultRopeTheta;
  constexpr FieldName kTheta = {"rope_theta", "rope_parameters.rope_theta"};
  if (reader.Has(kTheta)) {
    SLUICE_TRY(config.rope_theta, reader.Double(kTheta, kMinRopeTheta, kMaxRopeTheta));
  }
  constexpr FieldName kTie = {"tie_word_embeddings", nullptr};
  if (reader.Has(kTie)) {
    SLUICE_TRY(config.tie_word_embeddings, reader.Bool(kTie));
  }
  return Status::Ok();
}

}  // namespace

Result<Config> Config::Parse(std::string_view text) {
  Result<Json> json = Json::Parse(text, {.text_bytes = limits::kMaxModelConfigBytes});
  if (!json) return json.error().AddContext("config.json");
  const JsonValue root = json->root();
  if (!root.is_object()) return Status::Invalid("config.json: it must be an object");
  const ConfigReader reader(root);
  Config config;
  SLUICE_TRY(ReadArchitecture(reader, root, config));
  SLUICE_TRY(ReadFixed(reader, root));
  SLUICE_TRY(ReadSizes(reader, config));
  SLUICE_TRY(ReadNumbers(reader, config));
  SLUICE_TRY(config.bos_token_id, ReadToken(reader, root, "bos_token_id"));
  SLUICE_TRY(config.eos_token_id, ReadToken(reader, root, "eos_token_id"));
  Status status = Validate(config);
  if (!status.ok()) return status.AddContext("config.json");
  return config;
}

Status Validate(const Config& config) {
  const auto refuse = [](const char* field, auto value, std::string allowed) {
    return Status::InvalidField(field,
                                fmt::format("{} is {}; it must be {}", field, value, allowed));
  };
  if (config.head_dim < 2 || config.head_dim % 2 != 0 ||
      config.head_dim > ops::gqa_attention::kMaxHeadDim) {
    return refuse("head_dim", config.head_dim,
                  fmt::format("even, from 2 to {}", ops::gqa_attention::kMaxHeadDim));
  }
  const int32_t n_heads = config.num_attention_heads;
  const int32_t n_kv = config.num_key_value_heads;
  if (n_heads % n_kv != 0 || n_heads / n_kv > ops::gqa_attention::kMaxGroup) {
    return refuse("num_key_value_heads", n_kv,
                  fmt::format("a divisor of num_attention_heads ({}), at least a {}th of it",
                              n_heads, ops::gqa_attention::kMaxGroup));
  }
  if (config.n_query_values() > kMaxSize) {
    return refuse("num_attention_heads", n_heads,
                  fmt::format("at most {} / head_dim ({})", kMaxSize, config.head_dim));
  }
  for (const auto& [name, id] : {std::pair("bos_token_id", config.bos_token_id),
                                 std::pair("eos_token_id", config.eos_token_id)}) {
    if (id >= config.vocab_size) {
      return refuse(name, id, fmt::format("below vocab_size, {}", config.vocab_size));
    }
  }
  return Status::Ok();
}

std::string Config::Text() const {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", architecture, vocab_size,
                     hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
                     num_key_value_heads, head_dim, max_position_embeddings, rms_norm_eps,
                     rope_theta, tie_word_embeddings, has_qkv_bias, static_cast<int>(pairing),
                     bos_token_id, eos_token_id);
}

}  // namespace sluice::model::dense
