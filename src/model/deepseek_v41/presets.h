// Presets: the models that `sluice make-model` makes (spec model.md §6.1, §6.2, §6.5). Each keeps
// every mechanism of the released model alive at a size that suits its purpose.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/deepseek_v41/config.h"

namespace sluice::model::deepseek_v41 {

// What stands in tokenizer.json.
enum class PresetTokenizer : uint8_t {
  kNone,      // no such file: the model is used with ids
  kCut,       // the released tokenizer with a smaller vocabulary
  kReleased,  // the released file itself
};

struct Preset {
  std::string_view name;
  std::string_view sentence;  // what it is for
  PresetTokenizer tokenizer = PresetTokenizer::kNone;
  // Standard deviation of attention scores. Softmax over n keys gives weight to about
  // n / exp(gain^2) of them; this leaves 4 to 5 of window + top-k, as tiny-a has them. With the
  // same gain everywhere the average over 640 keys would leave next to nothing of real widths'
  // attention output.
  double query_gain = 0;
  Config config;
};

// All, from small to large.
std::span<const Preset> Presets();
// Null: there is none of this name.
const Preset* FindPreset(std::string_view name);

// config.json in the Hugging Face form: Config::Parse of it gives `config` again. config has no
// vision.
std::string ConfigText(const Config& config);

}  // namespace sluice::model::deepseek_v41
