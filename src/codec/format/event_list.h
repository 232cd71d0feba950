// EventList: the events of one call of an output lexer, built piece by piece: neighbouring pieces
// of one kind are one event. Owned by its lexer.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/call_id.h"
#include "codec/format/visible_tokens.h"
#include "codec/output_event.h"

namespace sluice::codec {

class EventList {
 public:
  // `ids.call` counts up from 0.
  explicit EventList(const CallIdParams& ids) : ids_(ids) { ids_.call = -1; }

  // Forgets the events; the calls go on.
  void Clear();

  // Not empty; kReasoning, kContent, or kArguments of the latest call.
  void Add(OutputKind kind, std::string_view text) { TextOf(kind) += text; }
  // The text that a piece of this kind is appended to, at least one byte.
  std::string& TextOf(OutputKind kind);
  void BeginCall(std::string_view name, bool without_thought);
  void EndCall();

  // With the tokens of visible text, if there are any. The views live until Clear.
  std::span<const OutputEvent> Events(VisibleTokens* visible);

  int32_t n_calls() const { return ids_.call + 1; }

 private:
  struct Piece {
    OutputKind kind;
    int32_t call;
    size_t begin;  // of its text; the next piece begins at its end
    std::string id;
  };
  void Open(OutputKind kind) {
    pieces_.push_back({.kind = kind, .call = ids_.call, .begin = text_.size(), .id = {}});
  }

  CallIdParams ids_;
  std::string text_;
  std::vector<Piece> pieces_;
  std::vector<OutputEvent> events_;
};

inline std::string& EventList::TextOf(OutputKind kind) {
  if (pieces_.empty() || pieces_.back().kind != kind || pieces_.back().call != ids_.call) {
    Open(kind);
  }
  return text_;
}

}  // namespace sluice::codec
