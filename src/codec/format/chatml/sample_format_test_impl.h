// Formats of ChatML for tests and fuzzers: one token per byte, whose id is the byte, and control
// tokens. SmolLM2 has no tokens for the marks of calls, Qwen2.5 has. Immutable.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "codec/format/chatml/format.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::codec::chatml {

inline std::unique_ptr<const Format> MakeSampleFormat(Family family) {
  const bool is_qwen = family == Family::kQwen25;
  std::vector<std::string> added = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<file_sep>"};
  if (is_qwen) added.insert(added.end(), {"<tool_call>", "</tool_call>"});
  auto vocabulary = token::Vocabulary::Parse(token::SampleTokenizer(
      {}, added, is_qwen ? token::TextRules::kQwen2 : token::TextRules::kSmollm));
  SLUICE_CHECK(vocabulary);
  auto format = Format::Make(std::move(*vocabulary), family);
  SLUICE_CHECK(format);
  return std::move(*format);
}

inline const Format& SampleFormat(Family family) {
  static const std::unique_ptr<const Format> kSmollm2 = MakeSampleFormat(Family::kSmollm2);
  static const std::unique_ptr<const Format> kQwen25 = MakeSampleFormat(Family::kQwen25);
  return family == Family::kSmollm2 ? *kSmollm2 : *kQwen25;
}

}  // namespace sluice::codec::chatml
