#include "engine/transfers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace sluice::engine {
namespace {

using metrics::MissCause;
using metrics::StoreCall;

// A Find looks at an index; later than this, computing has begun to be the better choice.
constexpr Duration kFindTimeout = Duration::Millis(100);
// A Load may take twice what the store said and a bit, and never longer than this (spec
// kv-cache.md §4.10).
constexpr Duration kLoadGrace = Duration::Millis(50);
constexpr Duration kLoadTimeoutMax = Duration::Seconds(10);

constexpr size_t kPolledAtOnce = 16;

Duration TimeoutOf(Duration estimate) {
  const Duration capped = std::clamp(estimate, Duration{}, kLoadTimeoutMax);
  return std::min(capped * 2 + kLoadGrace, kLoadTimeoutMax);
}

MissCause CauseOf(const Status& status) {
  return status.code() == ErrorCode::kDeadlineExceeded ? MissCause::kStoreLate
                                                       : MissCause::kStoreFailed;
}

}  // namespace

Transfers::~Transfers() {
  for (auto& [ticket, open] : open_) {
    if (!open.is_cancelled) params_.store.Cancel(ticket);
    open.is_cancelled = true;
    open.sequence = nullptr;
  }
  while (!open_.empty()) Poll(Time{});
}

bool Transfers::Find(Sequence& sequence, int32_t n_local, Time now) {
  const std::span<const kv::BlockKey> keys = sequence.WholeKeys();
  const auto n_keys = static_cast<int32_t>(keys.size());
  if (n_local / kv::kBlockTokens >= n_keys) return false;
  sequence.asks_store = false;
  const Ticket ticket = params_.store.Find({.root = sequence.root, .keys = keys});
  if (ticket == Ticket()) return false;
  sequence.BeginFetch(ticket, now + kFindTimeout, n_keys);
  sequence.lack = {.begin = n_local, .end = n_keys * kv::kBlockTokens};
  open_.emplace(ticket, Open{.call = StoreCall::kFind, .sequence = &sequence});
  return true;
}

Transfers::Loading Transfers::Load(const kv::Cache::Start& start, Sequence& sequence, Time now) {
  const Sequence::Fetch found = sequence.fetch;
  std::vector<BlockId> blocks;
  const kv::Cache::Room room{.n_end = found.n_found, .n_max = params_.n_blocks_max - n_named()};
  if (!params_.cache.Reserve(start, room, sequence.lease, blocks)) return Loading::kNoRoom;
  const auto begin = static_cast<int32_t>(sequence.lease.blocks.size());
  const auto end = begin + static_cast<int32_t>(blocks.size());
  sequence.lack = {.cause = MissCause::kNoRoom,
                   .begin = end * kv::kBlockTokens,
                   .end = found.n_found * kv::kBlockTokens};
  if (blocks.empty()) {
    Leave(sequence);
    return Loading::kNothing;
  }
  const Ticket ticket = params_.store.Load(
      found.lease, {.memory = &params_.memory, .begin = begin, .blocks = blocks});
  SLUICE_CHECK(ticket != Ticket());
  n_loading_ += end - begin;
  sequence.BeginFetch(ticket, now + TimeoutOf(found.estimate), end);
  open_.emplace(ticket, Open{.call = StoreCall::kLoad,
                             .sequence = &sequence,
                             .lease = found.lease,
                             .blocks = std::move(blocks)});
  return Loading::kStarted;
}

void Transfers::Abandon(Sequence& sequence) {
  if (sequence.state == SequenceState::kFetching) {
    Open& open = open_.at(sequence.fetch.ticket);
    open.sequence = nullptr;
    Cancel(sequence.fetch.ticket);
    params_.cache.Release(sequence.lease, {});
    sequence.EndFetch();
  } else {
    Leave(sequence);
  }
}

// What was found is not wanted.
void Transfers::Leave(Sequence& sequence) {
  params_.cache.Release(sequence.lease, {});
  if (sequence.fetch.lease != LeaseId()) params_.store.Release(sequence.fetch.lease);
  sequence.fetch = {};
}

void Transfers::Cancel(Ticket ticket) {
  Open& open = open_.at(ticket);
  if (open.is_cancelled) return;
  open.is_cancelled = true;
  params_.store.Cancel(ticket);
}

bool Transfers::Poll(Time now) {
  bool goes_on = false;
  std::array<kv::Completion, kPolledAtOnce> polled;
  while (const auto n = static_cast<size_t>(params_.store.Poll(polled))) {
    for (const kv::Completion& completion : std::span(polled).first(n)) {
      auto node = open_.extract(completion.ticket);
      SLUICE_CHECK(!node.empty());
      goes_on |= node.mapped().sequence != nullptr;
      Complete(completion, std::move(node.mapped()));
    }
  }
  for (auto& [ticket, open] : open_) {
    Sequence* sequence = open.sequence;
    if (sequence == nullptr || sequence->fetch.deadline > now) continue;
    metrics::Add(metrics::kStoreFailures, open.call);
    const int32_t n_waited_for = sequence->fetch.n_blocks * kv::kBlockTokens;
    sequence->lack = {.cause = MissCause::kStoreLate,
                      .begin = 0,
                      .end = std::max(sequence->lack.end, n_waited_for)};
    Abandon(*sequence);
    goes_on = true;
  }
  return goes_on;
}

void Transfers::Complete(const kv::Completion& completion, Open open) {
  const bool failed = !completion.status.ok() && !open.is_cancelled;
  if (failed) metrics::Add(metrics::kStoreFailures, open.call);
  switch (open.call) {
    case StoreCall::kFind:
      return CompleteFind(completion, open.sequence);
    case StoreCall::kLoad:
      return CompleteLoad(completion, open);
    case StoreCall::kSave:
      metrics::Add(metrics::kStoreSavedBlocks, completion.n_blocks);
      return params_.cache.EndSave(open.blocks.front());
  }
}

void Transfers::CompleteFind(const kv::Completion& completion, Sequence* sequence) {
  if (sequence == nullptr) {
    if (completion.lease != LeaseId()) params_.store.Release(completion.lease);
    return;
  }
  const int32_t n_asked = sequence->fetch.n_blocks;
  sequence->EndFetch();
  sequence->fetch.lease = completion.lease;
  sequence->fetch.n_found = std::clamp(completion.n_blocks, 0, n_asked);
  sequence->fetch.estimate = completion.estimate;
  if (completion.status.ok()) {
    sequence->lack = {};
  } else {
    sequence->lack.cause = CauseOf(completion.status);
  }
  if (!completion.status.ok() || sequence->fetch.n_found == 0) Leave(*sequence);
}

void Transfers::CompleteLoad(const kv::Completion& completion, const Open& open) {
  n_loading_ -= static_cast<int32_t>(open.blocks.size());
  params_.store.Release(open.lease);
  if (open.sequence == nullptr) return params_.cache.GiveBack(open.blocks);
  Sequence& sequence = *open.sequence;
  const auto n_asked = static_cast<int32_t>(open.blocks.size());
  const int32_t n_usable = std::clamp(completion.n_blocks, 0, n_asked);
  const auto begin = static_cast<int32_t>(sequence.lease.blocks.size());
  metrics::Add(metrics::kStoreLoadedBlocks, n_usable);
  sequence.n_fetched_begin = begin * kv::kBlockTokens;
  sequence.n_fetched_end = (begin + n_usable) * kv::kBlockTokens;
  if (n_usable < n_asked) {
    sequence.lack = {.cause = CauseOf(completion.status),
                     .begin = sequence.n_fetched_end,
                     .end = std::max(sequence.lack.end, (begin + n_asked) * kv::kBlockTokens)};
  }
  params_.cache.Settle(sequence.tokens, n_usable, sequence.lease, open.blocks);
  sequence.EndFetch();
}

// Half of what tickets may name is left to Loads, which somebody waits for.
void Transfers::Save() {
  while (!saves_no_more_ && n_named() < params_.n_blocks_max &&
         params_.cache.n_saving() < (params_.n_blocks_max + 1) / 2) {
    const std::optional<kv::Cache::Sealed> sealed = params_.cache.NextSealed();
    if (!sealed) return;
    const std::optional<BlockId> block = params_.cache.BeginSave(sealed->key);
    if (!block) continue;
    const Ticket ticket =
        params_.store.Save({.root = sealed->root, .parent = sealed->parent, .key = sealed->key},
                           {.memory = &params_.memory, .block = *block});
    if (ticket == Ticket()) {
      params_.cache.EndSave(*block);
      continue;
    }
    open_.emplace(ticket, Open{.call = StoreCall::kSave, .blocks = {*block}});
  }
}

void Transfers::StopSaving() {
  saves_no_more_ = true;
  for (auto& [ticket, open] : open_) {
    if (open.call == StoreCall::kSave) Cancel(ticket);
  }
}

std::vector<BlockId> Transfers::reserved() const {
  std::vector<BlockId> blocks;
  for (const auto& [ticket, open] : open_) {
    if (open.call == StoreCall::kLoad) {
      blocks.insert(blocks.end(), open.blocks.begin(), open.blocks.end());
    }
  }
  return blocks;
}

}  // namespace sluice::engine
