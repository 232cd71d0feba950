// Sequence: one request that has begun, as the engine sees it: its tokens, what of them has run and
// the blocks that it holds. Plain data of the engine thread.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/metrics.h"
#include "base/time.h"
#include "engine/planner.h"
#include "engine/replay.h"
#include "engine/sampling/logits.h"
#include "engine/sampling/sampler.h"
#include "kv/cache.h"
#include "kv/window_cache.h"
#include "wire/request_desk.h"

namespace sluice::engine {

// kWaiting holds no blocks: it has just begun, or gave them back for others. kFetching has an open
// call of the store; it holds what it knows to be there, so that what comes fits behind it.
// kRunning has its hit, and moves on with each step that plans it.
enum class SequenceState : uint8_t { kNone, kWaiting, kFetching, kRunning };

struct Sequence {
  // Another sequence computes what this one needs, too. It waits until that one has run n_tokens;
  // for all of its prompt, if the prompts are equal: then it goes on as a copy.
  struct Awaited {
    int32_t slot = 0;
    RequestId id;
    int32_t n_tokens = 0;
    bool is_fork = false;
  };

  // What the store has, or may have, of it.
  struct Fetch {
    Ticket ticket;         // kFetching
    Time deadline;         // kFetching: then it goes on without
    LeaseId lease;         // kWaiting: of what was found and is not loaded yet
    int32_t n_found = 0;   // blocks, with a lease
    Duration estimate;     // of loading them
    int32_t n_blocks = 0;  // kFetching: that it waits for, from the first one on
  };
  // Tokens [begin, end) of it, and why they had to be computed; all of it for the metrics.
  struct Lack {
    metrics::MissCause cause = metrics::MissCause::kUnseen;
    int32_t begin = 0;
    int32_t end = 0;
  };

  SequenceState state = SequenceState::kNone;
  wire::RequestDesk::Seat* seat = nullptr;
  RequestId id;
  // That of the request, until it has waited for too long.
  wire::RequestClass rank = wire::RequestClass::kDefault;
  uint64_t arrival = 0;         // in the order of beginning
  Time waits_since;             // kWaiting
  Time passed_since;            // others have had their turn, and it has not
  bool rests = false;           // asleep because there was no room, or because it fetches
  kv::BlockKey root;            // of its prefixes
  std::vector<TokenId> tokens;  // known: the prompt and what was drawn
  int32_t n_prompt = 0;
  int32_t n_max = 0;  // tokens to generate: what was asked for, or what the context has room for
  std::optional<Awaited> awaited;
  bool is_scored = false;          // its prompt is: every row has logits, and it shares nothing
  std::vector<kv::BlockKey> keys;  // of its whole blocks, as far as somebody has asked for them
  bool asks_store = true;          // before it starts
  Fetch fetch;
  int32_t n_fetched_begin = 0;  // tokens [begin, end) came from the store
  int32_t n_fetched_end = 0;
  Lack lack;                 // what the store could have had
  bool was_counted = false;  // its hit was told
  int32_t n_told = 0;        // tokens of it
  // Its last rows are no numbers: nobody else may use them. Blocks that earlier steps have filled
  // looked well and stay.
  bool is_sick = false;
  // Known tokens at which a script makes it sick, as if its rows were no numbers.
  int64_t n_healthy = std::numeric_limits<int64_t>::max();

  // kRunning.
  kv::Lease lease;
  int32_t n_hit = 0;  // tokens whose shared rows were there
  int32_t n_run = 0;  // rows that need not run any more; below n_hit while windows are rebuilt
  int32_t window_begin = 0;
  int32_t decoder_begin = 0;
  int32_t n_least = 0;  // tokens from which on its windows are those of a sequence without a hit

  SampleParams sample;
  TokenHistory history;  // with penalties only

  SlotId slot() const { return SlotId(seat->slot()); }
  int32_t n_known() const { return static_cast<int32_t>(tokens.size()); }
  bool in_prompt() const { return n_run < n_prompt; }
  // One row, the token drawn last, stands between this sequence and its next token.
  bool is_decoding() const { return n_run + 1 == n_known() && !in_prompt(); }
  // Tokens whose shared rows are written and may be used by others.
  std::span<const TokenId> stored() const;
  PlanItem ToPlan(int32_t slot, bool may_run) const;

  // The names of the whole blocks of what it knows that a hit may cover.
  std::span<const kv::BlockKey> WholeKeys();

  // kWaiting -> kFetching, and back; the lease was given back.
  void BeginFetch(Ticket ticket, Time deadline, int32_t n_blocks);
  void EndFetch();
  // kWaiting -> kRunning, with the n_tokens that lease holds.
  void Start(const ReplayRule& rule, int32_t n_tokens);
  // kWaiting -> kRunning, behind the prompt, which is the other's, as are the copied blocks and
  // windows.
  void StartAsCopyOf(const Sequence& other);
  // Just started: it has the windows of `entry` for its first n_tokens, and runs nothing again.
  void UseWindows(const kv::WindowEntry& entry, int32_t n_tokens);
  // kRunning -> kWaiting; the lease was given back.
  void Stop();
};

}  // namespace sluice::engine
