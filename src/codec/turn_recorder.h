// TurnRecorder: what the model samples for one choice and what its client sees of it, until the
// turn has ended and is kept. It stands in the way of every token, so it only appends; a turn that
// is longer than limits::kMaxTurnTokens, or for which there is no room, is let go. What it holds is
// charged to the memory by its size. Owned by the net
// thread.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/output_event.h"

namespace sluice::codec {

class TurnRecorder {
 public:
  // `start` outlives the recorder and has a memory.
  explicit TurnRecorder(const TurnStart& start) : start_(start) {}
  ~TurnRecorder();
  TurnRecorder(const TurnRecorder&) = delete;

  void TakeTokens(std::span<const TokenId> tokens);
  void TakeEvent(const OutputEvent& event);

  // The turn is the first `n_tokens` that were taken, then `end`, the end of sentence.
  void Keep(int32_t n_tokens, TokenId end);

 private:
  void Charge(size_t n_bytes);
  void LetGo();

  const TurnStart& start_;
  bool is_let_go_ = false;
  std::vector<TokenId> tokens_;
  Message turn_;
  int64_t n_bytes_ = 0;
  int64_t n_reserved_ = 0;  // of start_.memory
};

}  // namespace sluice::codec
