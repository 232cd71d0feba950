// JsonFilter: finds the JSON in the content of an answer that is to be JSON (spec recipe.md §8.4):
// what stands around it is filler. A fence begins it, or the first bracket; it ends at the closing
// fence, or where its last bracket closes.
//
// Two ways: as the reference, which keeps the place of filler and lets JSON without a fence go on
// to the end of the output; and ours, which shows the JSON and nothing else, and everything if
// there is no JSON. Ours falls back on the reference where a bracket in the middle of a sentence
// may or may not be the JSON. Owned by its lexer.

#pragma once

#include <cstdint>
#include <vector>

#include "codec/format/character.h"

namespace sluice::codec {

class JsonFilter {
 public:
  struct Item {
    Character character;
    bool is_filler;
  };

  explicit JsonFilter(bool as_reference) : as_reference_(as_reference) {}

  // Appends what has been decided.
  void Take(const Character& c, std::vector<Item>& out);
  // The content has ended: what is still held.
  void End(std::vector<Item>& out);

  // Within the JSON everything is text.
  bool is_inside() const {
    return state_ == State::kBare || state_ == State::kFenced ||
           (state_ == State::kDoubtful && depth_ > 0);
  }
  // kNoToken: nothing is held.
  int32_t first_held_token() const;

 private:
  static constexpr size_t kMaxHeld = 16'384;  // characters; then it is not JSON, and text again

  enum class State : uint8_t { kBefore, kDoubtful, kBare, kFenced, kAfter, kText };

  void TakeBefore(const Character& c, std::vector<Item>& out);
  bool FollowsProse() const;
  void TakeDoubtful(const Character& c, std::vector<Item>& out);
  void Believe(std::vector<Item>& out);
  void Track(const Character& c);
  void TakeBare(const Character& c, std::vector<Item>& out);
  void TakeFenced(const Character& c, std::vector<Item>& out);
  void TakeAfter(const Character& c, std::vector<Item>& out);
  void AddFiller(const Character& c, std::vector<Item>& out);
  void ReleaseHeld(bool is_filler, std::vector<Item>& out);

  const bool as_reference_;
  State state_ = State::kBefore;
  std::vector<Character> fence_;     // may become a fence
  std::vector<Character> held_;      // ours: filler before any JSON, or white space behind it
  std::vector<Character> doubtful_;  // ours: JSON, or a bracket in the filler held
  bool dropped_after_ = false;       // ours: text came behind the JSON
  int32_t depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
};

}  // namespace sluice::codec
