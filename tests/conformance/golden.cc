#include "conformance/golden.h"

#include <utility>

#include "base/json.h"
#include "model/checkpoint/packing.h"
#include "model/deepseek_v41/engram_tokens.h"
#include "tensor/formats.h"

namespace sluice::conformance {
namespace {

namespace v41 = model::deepseek_v41;
constexpr int64_t kMaxTokensFile = int64_t{16} << 20;

std::vector<TokenId> ReadTokens(const JsonValue& root, std::string_view name) {
  std::vector<TokenId> tokens;
  const JsonValue list = root.Find(name);
  if (!list.exists()) return tokens;
  for (JsonValue id : list.elements()) tokens.emplace_back(static_cast<int32_t>(id.AsInt64()));
  return tokens;
}

Status ReadTensors(const MappedFile& file, std::map<std::string, Tensor>& into) {
  SLUICE_TRY(std::vector<model::TensorEntry> entries, model::ParseHeader(file.bytes()));
  for (model::TensorEntry& entry : entries) {
    const auto* data = reinterpret_cast<const uint8_t*>(file.bytes().data()) + entry.begin;
    into[entry.name] = {.dtype = entry.dtype,
                        .shape = std::move(entry.shape),
                        .bytes = {data, data + entry.n_bytes}};
  }
  return Status::Ok();
}

// As loading does.
Buffer Pack(std::vector<Matrix*> matrices) {
  ThreadTeam team(1);
  model::Packing packing(std::move(matrices));
  while (!packing.done()) packing.Step(team);
  return packing.Take();
}

}  // namespace

int64_t Tensor::n_values() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

float Tensor::Value(int64_t i) const {
  switch (dtype) {
    case DType::kBf16:
      return ToFloat(as<Bf16>()[i]);
    case DType::kF32:
      return as<float>()[i];
    case DType::kI32:
      return static_cast<float>(as<int32_t>()[i]);
    case DType::kI64:
      return static_cast<float>(as<int64_t>()[i]);
    default:
      return static_cast<float>(bytes[static_cast<size_t>(i)]);
  }
}

Result<std::unique_ptr<Golden>> Golden::Open(FileSystem& fs, const std::string& folder) {
  auto golden = std::make_unique<Golden>();
  SLUICE_TRY(MappedFile values, fs.Map(folder + "/golden.safetensors"));
  SLUICE_TRY(ReadTensors(values, golden->tensors));
  SLUICE_TRY(std::string text, fs.ReadWhole(folder + "/tokens.json", kMaxTokensFile));
  SLUICE_TRY(Json json, Json::Parse(text));
  golden->prompt = ReadTokens(json.root(), "prompt");
  golden->image_prompt = ReadTokens(json.root(), "image_prompt");

  SLUICE_TRY(model::Checkpoint checkpoint, model::Checkpoint::Open(fs, folder));
  golden->checkpoint = std::make_unique<model::Checkpoint>(std::move(checkpoint));
  SLUICE_TRY(v41::Config config, v41::Config::Parse(golden->checkpoint->config_text()));
  SLUICE_TRY(v41::Weights weights, v41::Weights::Bind(*golden->checkpoint, config));
  golden->packed = Pack(weights.ToPack(config));
  SLUICE_TRY(std::vector<int32_t> classes, v41::LoadTokenClasses(fs, folder, config));
  golden->model = std::make_unique<v41::DeepseekV41>(
      v41::DeepseekV41::Params{.config = std::move(config),
                               .weights = std::move(weights),
                               .token_classes = std::move(classes)});
  return golden;
}

}  // namespace sluice::conformance
