#include "codec/format/event_list.h"

namespace sluice::codec {

void EventList::Clear() {
  text_.clear();
  pieces_.clear();
}

void EventList::BeginCall(std::string_view name, bool without_thought) {
  ++ids_.call;
  ids_.without_thought = without_thought;
  Open(OutputKind::kCall);
  pieces_.back().id = MakeCallId(ids_);
  text_ += name;
}

void EventList::EndCall() { Open(OutputKind::kCallEnd); }

std::span<const OutputEvent> EventList::Events(VisibleTokens* visible) {
  events_.clear();
  bool has_content = false;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const size_t end = i + 1 < pieces_.size() ? pieces_[i + 1].begin : text_.size();
    OutputEvent event{.kind = piece.kind,
                      .text = std::string_view(text_).substr(piece.begin, end - piece.begin),
                      .call = piece.call,
                      .call_id = piece.id};
    const bool is_visible =
        piece.kind == OutputKind::kReasoning || piece.kind == OutputKind::kContent;
    if (is_visible) {
      event.call = 0;
      has_content = has_content || piece.kind == OutputKind::kContent;
      if (visible != nullptr) event.logprobs = visible->Shown(piece.kind);
    }
    events_.push_back(event);
  }
  // Entries of tokens without visible text, where those are listed.
  if (visible != nullptr && !has_content) {
    const std::span<const TokenText> hidden = visible->Shown(OutputKind::kContent);
    if (!hidden.empty()) {
      events_.push_back({.kind = OutputKind::kContent, .text = {}, .logprobs = hidden});
    }
  }
  return events_;
}

}  // namespace sluice::codec
