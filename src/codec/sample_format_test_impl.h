// A Format for tests and fuzzers: one token per byte, whose id is the byte, and the control tokens.
// Immutable.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "codec/format/deepseek_v41/format.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::codec {

inline const deepseek_v41::Format& SampleFormat() {
  static const std::unique_ptr<const deepseek_v41::Format> kFormat = [] {
    std::vector<std::string> added;
    for (size_t i = 0; i < deepseek_v41::kNumControls; ++i) {
      added.emplace_back(deepseek_v41::SpellingOf(static_cast<deepseek_v41::Control>(i)));
    }
    auto vocabulary = token::Vocabulary::Parse(token::SampleTokenizer({}, added));
    SLUICE_CHECK(vocabulary);
    auto format = deepseek_v41::Format::Make(std::move(*vocabulary));
    SLUICE_CHECK(format);
    return std::move(*format);
  }();
  return *kFormat;
}

}  // namespace sluice::codec
