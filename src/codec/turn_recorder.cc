#include "codec/turn_recorder.h"

#include <utility>

#include "base/bytes.h"
#include "base/limits.h"
#include "codec/turn_memory.h"

namespace sluice::codec {
namespace {

// Room is asked for in steps, so that few tokens wait for a lock.
constexpr int64_t kStepBytes = 4 * kKiB;

}  // namespace

TurnRecorder::~TurnRecorder() { LetGo(); }

void TurnRecorder::TakeTokens(std::span<const TokenId> tokens) {
  if (is_let_go_) return;
  if (std::ssize(tokens_) + std::ssize(tokens) > limits::kMaxTurnTokens) return LetGo();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  Charge(tokens.size_bytes());
}

void TurnRecorder::TakeEvent(const OutputEvent& event) {
  if (is_let_go_) return;
  switch (event.kind) {
    case OutputKind::kReasoning:
      if (!turn_.reasoning) turn_.reasoning.emplace();
      *turn_.reasoning += event.text;
      break;
    case OutputKind::kContent:
      turn_.text += event.text;
      break;
    case OutputKind::kCall:
      turn_.calls.emplace_back().name = event.text;
      Charge(sizeof(ToolCall));
      break;
    case OutputKind::kArguments:
      turn_.calls.back().arguments += event.text;
      break;
    case OutputKind::kCallEnd:
      break;
  }
  Charge(event.text.size());
}

void TurnRecorder::Charge(size_t n_bytes) {
  n_bytes_ += static_cast<int64_t>(n_bytes);
  while (n_bytes_ > n_reserved_) {
    if (!start_.memory->Reserve(kStepBytes)) return LetGo();
    n_reserved_ += kStepBytes;
  }
}

void TurnRecorder::LetGo() {
  is_let_go_ = true;
  tokens_ = {};
  turn_ = {};
  start_.memory->Release(std::exchange(n_reserved_, 0));
}

void TurnRecorder::Keep(int32_t n_tokens, TokenId end) {
  if (is_let_go_) return;
  std::vector<TokenId> ids;
  ids.reserve(start_.opening.size() + static_cast<size_t>(n_tokens) + 1);
  ids.insert(ids.end(), start_.opening.begin(), start_.opening.end());
  ids.insert(ids.end(), tokens_.begin(), tokens_.begin() + n_tokens);
  ids.push_back(end);
  start_.memory->Keep(start_.place, turn_, std::move(ids));
}

}  // namespace sluice::codec
