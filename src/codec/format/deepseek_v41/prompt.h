// Prompt: a rendered conversation before it is tokens: text in which the control tokens of our own
// are marked. What is not marked is plain text, whatever it spells (spec recipe.md §5). Plain data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

  // A whole turn of the assistant.
  struct Turn {
    size_t begin;  // index of the first mark behind its `<｜Assistant｜>`
    size_t end;    // index behind its last mark, the end of sentence
    const Message* message;
    bool lacks_reasoning;  // shows reasoning, and came without any
  };

  std::string text;
  std::vector<Mark> marks;           // by begin
  std::vector<const Image*> images;  // one per mark of kImage
  std::vector<Turn> turns;           // by begin; as images, their messages are the conversation's
  // Index of the first mark behind the `<｜Assistant｜>` that is the answer's, if the next prompt
  // of the conversation would show the answer as it was sampled.
  std::optional<size_t> answer;
  int32_t n_missing_reasoning = 0;  // assistant messages that show reasoning, and came without any

  void Add(std::string_view plain) { text += plain; }
  void Add(Control control) {
    const std::string_view spelling = SpellingOf(control);
    marks.push_back({text.size(), text.size() + spelling.size(), control});
    text += spelling;
  }
};

struct EncodedPrompt {
  std::vector<TokenId> ids;
  std::vector<int32_t> images;       // position of each of the prompt's images
  int32_t n_spliced = 0;             // turns that came out of the memory
  TurnStart answer;                  // without a memory if the answer is not to be kept
  int32_t n_restored_reasoning = 0;  // of Prompt::n_missing_reasoning, those that the memory knew
};

// The ids: each mark is its token, each span between two marks is encoded without control tokens.
// With a memory the turns that `key` finds there are the ids that were sampled.
//
// The prefix of a turn's place is chained from turn to turn, so that all of them cost one pass:
//   H(k) = SHA-256(H(k-1), SHA-256 of the source of each image since, the ids since)
EncodedPrompt Encode(const Prompt& prompt,
                     const Format& format,
                     TurnMemory* memory = nullptr,
                     KeyId key = KeyId());

}  // namespace sluice::codec::deepseek_v41
