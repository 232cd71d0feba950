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
#include "codec/format.h"

namespace sluice::codec {

struct Prompt {
  // A control token of the format, spelled in `text` at [begin, end).
  struct Mark {
    size_t begin;
    size_t end;
    uint8_t control;  // the enumerator of the format's Control
    bool is_image = false;
  };

  // Behind so many marks, and up to this byte of the text, which lies before the next mark.
  struct Place {
    size_t n_marks;
    size_t text_end;
  };

  // A whole turn of the assistant.
  struct Turn {
    Place begin;     // behind what tells whose turn it is
    size_t end = 0;  // index behind its last mark, the end of the turn
    const Message* message = nullptr;
    // The control token that it begins with, where formats have several for it.
    std::optional<uint8_t> first;
    bool lacks_reasoning = false;  // shows reasoning, and came without any
  };

  std::string text;
  std::vector<Mark> marks;           // by begin
  std::vector<const Image*> images;  // one per mark that is an image
  std::vector<Turn> turns;           // by begin; as images, their messages are the conversation's
  // Where the answer's turn begins, if the next prompt of the conversation would show the answer as
  // it was sampled.
  std::optional<Place> answer;
  int32_t n_missing_reasoning = 0;  // assistant messages that show reasoning, and came without any

  void Add(std::string_view plain) { text += plain; }
  // `control` is of a format, which has SpellingOf for it.
  void AddControl(auto control) {
    const std::string_view spelling = SpellingOf(control);
    marks.push_back({.begin = text.size(),
                     .end = text.size() + spelling.size(),
                     .control = static_cast<uint8_t>(control)});
    text += spelling;
  }
  void AddImage(auto control, const Image& image) {
    AddControl(control);
    marks.back().is_image = true;
    images.push_back(&image);
  }
  Place Here() const { return {.n_marks = marks.size(), .text_end = text.size()}; }
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
                     Format format,
                     TurnMemory* memory = nullptr,
                     KeyId key = KeyId());

}  // namespace sluice::codec
