#include "engine/sequence.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::engine {

std::span<const TokenId> Sequence::stored() const {
  if (state != SequenceState::kRunning || is_sick || is_scored) return {};
  return std::span(tokens).first(static_cast<size_t>(std::max(n_hit, n_run)));
}

PlanItem Sequence::ToPlan(int32_t slot, bool may_run) const {
  return {.slot = slot,
          .n_run = n_run,
          .n_known = n_known(),
          .n_blocks = static_cast<int32_t>(lease.blocks.size()),
          .n_scores = seat->n_unscored(),
          .is_decoding = is_decoding(),
          .may_run = may_run,
          .is_paused = seat->is_paused()};
}

std::span<const kv::BlockKey> Sequence::WholeKeys() {
  const auto n_keys = static_cast<size_t>((n_known() - 1) / kv::kBlockTokens);
  while (keys.size() < n_keys) {
    const auto of_block = std::span(tokens).subspan(keys.size() * kv::kBlockTokens,
                                                    static_cast<size_t>(kv::kBlockTokens));
    keys.push_back(kv::ChildKey(keys.empty() ? root : keys.back(), of_block));
  }
  return std::span(keys).first(n_keys);
}

void Sequence::BeginFetch(Ticket ticket, Time deadline, int32_t n_blocks) {
  SLUICE_CHECK(state == SequenceState::kWaiting);
  state = SequenceState::kFetching;
  awaited.reset();
  fetch = {.ticket = ticket, .deadline = deadline, .n_blocks = n_blocks};
}

void Sequence::EndFetch() {
  SLUICE_CHECK(state == SequenceState::kFetching && lease.blocks.empty());
  state = SequenceState::kWaiting;
  fetch = {};
}

void Sequence::Start(const ReplayRule& rule, int32_t n_tokens) {
  SLUICE_CHECK(state == SequenceState::kWaiting && n_tokens < n_known());
  state = SequenceState::kRunning;
  awaited.reset();
  n_hit = n_tokens;
  n_run = window_begin = ReplayBegin(rule, n_prompt, n_tokens);
  decoder_begin = DecoderBegin(rule, n_prompt);
  n_least = n_tokens;
}

void Sequence::UseWindows(const kv::WindowEntry& entry, int32_t n_tokens) {
  n_run = n_tokens;
  window_begin = entry.window_begin;
  n_least = entry.n_least;
  if (n_tokens > decoder_begin) decoder_begin = entry.decoder_begin;
}

void Sequence::StartAsCopyOf(const Sequence& other) {
  SLUICE_CHECK(state == SequenceState::kWaiting && n_known() == other.n_run);
  state = SequenceState::kRunning;
  awaited.reset();
  n_hit = n_run = other.n_run;
  window_begin = other.window_begin;
  decoder_begin = other.decoder_begin;
  n_least = other.n_least;
}

void Sequence::Stop() {
  SLUICE_CHECK(state == SequenceState::kRunning && lease.blocks.empty());
  state = SequenceState::kWaiting;
  n_hit = n_run = window_begin = n_least = 0;
  asks_store = true;
}

}  // namespace sluice::engine
