#include "model/models.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/limits.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/untrusted_text.h"

namespace sluice::model {
namespace {

struct Known {
  std::string_view model_type;
  Family family;
};

constexpr Known kKnown[] = {
    {"deepseek_v41", Family::kDeepseekV41},
    {"deepseek_v41_text", Family::kDeepseekV41},
    {"llama", Family::kDense},
    {"qwen2", Family::kDense},
};

}  // namespace

Result<Family> FamilyOf(FileSystem& fs, const ModelPlace& place) {
  if (place.kind == ModelPlace::Kind::kGguf) return Family::kDense;
  const std::string path = fmt::format("{}/config.json", place.path);
  const Result<std::string> text = ReadSideFile(fs, path, limits::kMaxModelConfigBytes);
  if (!text) return Family::kDeepseekV41;
  const Result<Json> json = Json::Parse(*text, {.text_bytes = limits::kMaxModelConfigBytes});
  if (!json || !json->root().Find("model_type").is_string()) return Family::kDeepseekV41;
  const std::string_view model_type = json->root().Find("model_type").AsString();
  std::vector<std::string_view> names;
  for (const Known& known : kKnown) {
    if (known.model_type == model_type) return known.family;
    names.push_back(known.model_type);
  }
  Status status(ErrorCode::kUnsupported,
                fmt::format("{}: config.json: model_type is {}; known are {}", place.path,
                            Quote(model_type), fmt::join(names, ", ")));
  return status.set_param("model_type");
}

}  // namespace sluice::model
