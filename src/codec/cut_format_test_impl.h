// The Format of a real vocabulary, cut to 4,096 tokens (tests/golden/tokenizer), for tests.
// Immutable.

#pragma once

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/check.h"
#include "codec/format/deepseek_v41/format.h"

namespace sluice::codec {

inline const deepseek_v41::Format& CutFormat() {
  static const std::unique_ptr<const deepseek_v41::Format> kFormat = [] {
    std::ifstream in(SLUICE_SOURCE_DIR "/tests/golden/tokenizer/tokenizer.json", std::ios::binary);
    auto vocabulary = token::Vocabulary::Parse(std::string(std::istreambuf_iterator<char>(in), {}));
    SLUICE_CHECK(vocabulary);
    auto format = deepseek_v41::Format::Make(std::move(*vocabulary));
    SLUICE_CHECK(format);
    return std::move(*format);
  }();
  return *kFormat;
}

}  // namespace sluice::codec
