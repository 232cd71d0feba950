// The tokenizer.json of DeepSeek-V4.1-Flash cut to 4,096 tokens, as `make-model mini-b` writes it:
// what `serve --script` counts with if no other is named. Its bytes are those of
// tests/golden/tokenizer/tokenizer.json (cmake/embed_text.cmake). Constant.

#pragma once

#include <string_view>

namespace sluice::app {

extern const std::string_view kCutTokenizer;

}  // namespace sluice::app
