// Whose turn it is: ranks, who starts, and who gives way to it.

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "engine/batch.h"

namespace sluice::engine {
namespace {

// Blocks that a sequence needs beyond those it holds, for all that it knows and one more. None
// while its client does not read: it does not move then, and whoever starts need not leave room.
int64_t BlocksToCome(const Sequence& sequence) {
  if (sequence.seat->is_paused()) return 0;
  if (sequence.state != SequenceState::kRunning && sequence.state != SequenceState::kFetching) {
    return 0;
  }
  // While a Load is open, what it fills counts as held.
  const int64_t n_held =
      std::max<int64_t>(std::ssize(sequence.lease.blocks),
                        sequence.lease.blocks.empty() ? 0 : sequence.fetch.n_blocks);
  return std::max<int64_t>(0, kv::Layout::BlocksFor(sequence.n_known() + 1) - n_held);
}

// To one that starts with this rank. Whose client does not read gives way to all: it could hold
// its blocks for ever.
bool GivesWay(const Sequence& sequence, wire::RequestClass rank) {
  return sequence.rank > rank || sequence.seat->is_paused();
}

}  // namespace

bool Batch::RanksBefore(int32_t slot, int32_t other) const {
  const Sequence& a = At(slot);
  const Sequence& b = At(other);
  return std::pair(a.rank, a.arrival) < std::pair(b.rank, b.arrival);
}

void Batch::RaiseLongWaiting(Time now) {
  constexpr wire::RequestClass kHighest = wire::RequestClass::kInteractive;
  bool has_raised = false;
  for (const int32_t slot : order_) {
    Sequence& sequence = At(slot);
    // Those that wait for another one's rows rank by that one's; a client that does not read is
    // passed over by nobody but itself.
    const bool is_passed_over = sequence.state == SequenceState::kWaiting
                                    ? !IsAwaiting(sequence)
                                    : sequence.seat->is_ready();
    if (!is_passed_over) sequence.passed_since = now;
    if (sequence.rank == kHighest || now - sequence.passed_since < kRankPatience) continue;
    sequence.rank = kHighest;
    has_raised = true;
  }
  const auto before = [this](int32_t a, int32_t b) { return RanksBefore(a, b); };
  if (has_raised) std::ranges::sort(order_, before);
}

// By rank; whoever does not fit holds up those behind, or the large would starve. What those of its
// class and above that run will need is theirs, or they would take it back at once; those below
// give way to it.
void Batch::StartWaiting(Time now) {
  std::array<int64_t, wire::kNumRequestClasses> n_to_come{};  // blocks, of those that run by rank
  const auto count = [&n_to_come](const Sequence& sequence, int64_t sign) {
    n_to_come[static_cast<size_t>(sequence.rank)] += sign * BlocksToCome(sequence);
  };
  for (const int32_t slot : order_) count(At(slot), 1);
  for (const int32_t slot : order_) {
    Sequence& sequence = At(slot);
    if (sequence.state != SequenceState::kWaiting) continue;
    if (std::exchange(sequence.rests, false)) desk_.Wake(*sequence.seat);
    if (!MayRun(sequence)) continue;
    if (IsAwaiting(sequence) || FindAwaited(sequence)) continue;
    const auto above = std::span(n_to_come).first(static_cast<size_t>(sequence.rank) + 1);
    const bool is_first = slot == order_.front();
    for (;;) {
      const int64_t n_spoken_for = std::accumulate(above.begin(), above.end(), int64_t{0});
      if (TryStart(sequence, n_spoken_for, now)) break;
      const int32_t victim = LastWithBlocks();
      if (victim < 0) return;
      if (!GivesWay(At(victim), sequence.rank)) return;
      const int32_t n_hit = cache_.Look(sequence.root, sequence.tokens, sequence.n_known() - 1);
      const int64_t n_needed = kv::Layout::BlocksFor(sequence.n_known() - n_hit);
      const int64_t n_short = n_needed + (is_first ? 0 : n_spoken_for) - cache_.n_available();
      if (BlocksBelow(sequence.rank) < n_short) return;  // they would give them for nothing
      count(At(victim), -1);
      GiveWay(victim, now);
    }
    count(sequence, 1);
  }
}

int64_t Batch::BlocksBelow(wire::RequestClass rank) const {
  int64_t n_blocks = 0;
  for (const int32_t slot : order_) {
    if (GivesWay(At(slot), rank)) n_blocks += std::ssize(At(slot).lease.blocks);
  }
  return n_blocks;
}

int32_t Batch::LastWithBlocks() const {
  int32_t last = -1;
  for (const int32_t slot : order_) {
    if (At(slot).lease.blocks.empty()) continue;
    const bool was_paused = last >= 0 && At(last).seat->is_paused();
    if (At(slot).seat->is_paused() || !was_paused) last = slot;
  }
  return last;
}

void Batch::GiveWay(int32_t slot, Time now) {
  AbandonFetchesBehind(slot);
  Sequence& sequence = At(slot);
  if (sequence.state == SequenceState::kRunning) return Preempt(slot, now);
  transfers_.Abandon(sequence);
  sequence.asks_store = true;
}

}  // namespace sluice::engine
