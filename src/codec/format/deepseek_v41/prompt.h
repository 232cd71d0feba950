// Prompt: a rendered conversation before it is tokens: text in which the control tokens of our own
// are marked. What is not marked is plain text, whatever it spells (spec recipe.md §5). Plain data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/format/deepseek_v41/format.h"

namespace sluice::codec::deepseek_v41 {

struct Prompt {
  // A control token, spelled in `text` at [begin, end).
  struct Mark {
    size_t begin;
    size_t end;
    Control control;
  };

  std::string text;
  std::vector<Mark> marks;           // by begin
  std::vector<const Image*> images;  // one per mark of kImage; they belong to the conversation
  int32_t n_missing_reasoning = 0;   // assistant turns that show reasoning and came without any

  void Add(std::string_view plain) { text += plain; }
  void Add(Control control) {
    const std::string_view spelling = SpellingOf(control);
    marks.push_back({text.size(), text.size() + spelling.size(), control});
    text += spelling;
  }
};

// The ids: each mark is its token, each span between two marks is encoded without control tokens.
std::vector<TokenId> Encode(const Prompt& prompt, const Format& format);

}  // namespace sluice::codec::deepseek_v41
