#include "engine/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/metrics.h"
#include "engine/prefix_account.h"
#include "engine/sampling/logits.h"

namespace sluice::engine {
namespace {

// How long those that cannot move sleep before they look again.
constexpr Duration kRest = Duration::Millis(5);

// Rows may depend on all of it; those of before a fault are not trusted.
std::string ModeOf(const Batch::Params& params) {
  return fmt::format("{} {} {} {}", kPrefillNames[static_cast<size_t>(params.rule.prefill)],
                     kReplayNames[static_cast<size_t>(params.rule.replay)],
                     params.arithmetic == Arithmetic::kExact ? "exact" : "float32",
                     params.n_faults);
}

// Tokens of a fetching sequence that the store may bring.
int32_t TokensToFetch(const Sequence& sequence) {
  return sequence.fetch.n_blocks * kv::kBlockTokens;
}

int32_t SharedTokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::ranges::mismatch(a, b).in1;
  return static_cast<int32_t>(end - a.begin());
}

}  // namespace

Batch::Batch(const Params& params,
             wire::RequestDesk& desk,
             Executor& executor,
             kv::BlockStore& store)
    : params_(params),
      desk_(desk),
      executor_(executor),
      mode_(ModeOf(params)),
      cache_(params.cache),
      windows_(params.n_slots, params.cache.shares ? params.n_windows : 0),
      sequences_(static_cast<size_t>(params.n_slots)),
      transfers_({.store = store,
                  .cache = cache_,
                  .memory = executor.memory(),
                  .n_blocks_max = static_cast<int32_t>(
                      params.cache.n_blocks - kv::Layout::BlocksFor(executor.n_context()))}) {}

Batch::~Batch() {
  for (const int32_t slot : order_) {
    if (At(slot).state != SequenceState::kRunning) transfers_.Abandon(At(slot));
  }
}

Sequence& Batch::Begin(wire::RequestDesk::Seat& seat, Time now) {
  const wire::GenerateRequest& request = seat.request();
  Sequence& sequence = At(seat.slot());
  SLUICE_CHECK(sequence.state == SequenceState::kNone);
  sequence.state = SequenceState::kWaiting;
  sequence.seat = &seat;
  sequence.id = request.id;
  sequence.rank = request.request_class;
  sequence.arrival = ++n_begun_;
  sequence.waits_since = sequence.passed_since = now;
  sequence.tokens = *request.prompt;
  sequence.n_prompt = sequence.n_known();
  sequence.is_scored = request.sampling.n_prompt_logprobs.has_value();
  sequence.root = kv::RootKey(params_.secret, executor_.info().layout,
                              {.weights_revision = executor_.weights_revision(),
                               .replay_mode = mode_,
                               .name_space = std::to_string(request.tenant.value)});
  const auto before = [this](int32_t a, int32_t b) { return RanksBefore(a, b); };
  order_.insert(std::ranges::upper_bound(order_, seat.slot(), before), seat.slot());
  return sequence;
}

void Batch::ReleaseEnded() {
  std::erase_if(order_, [this](int32_t slot) {
    Sequence& sequence = At(slot);
    if (sequence.seat->slot() == slot) return false;
    if (sequence.state != SequenceState::kRunning) transfers_.Abandon(sequence);
    KeepWindows(sequence, slot);
    cache_.Release(sequence.lease, sequence.stored());
    sequence = {};
    return true;
  });
  SetGauges();
}

StepPlan Batch::Plan(Time now) {
  PollStore(now);
  RaiseLongWaiting(now);
  do {
    StartWaiting(now);
  } while (PollStore(now));
  StepPlan plan = PlanRunning();
  while (plan.victim >= 0) {
    GiveWay(plan.victim, now);
    plan = PlanRunning();
  }
  if (plan.parts.empty()) Rest(now);
  SetGauges();
  return plan;
}

// The store wakes those that wait for it, and others come back when they have slept enough.
void Batch::Rest(Time now) {
  for (const int32_t slot : order_) {
    Sequence& sequence = At(slot);
    if (!sequence.seat->is_ready()) continue;
    sequence.rests = true;
    const bool fetches = sequence.state == SequenceState::kFetching;
    desk_.Sleep(*sequence.seat, fetches ? sequence.fetch.deadline : now + kRest);
  }
}

// True: somebody has what the store could give, and goes on. Those that wait for others look again,
// too.
bool Batch::PollStore(Time now) {
  if (!transfers_.Poll(now)) return false;
  for (const int32_t slot : order_) {
    Sequence& sequence = At(slot);
    if (sequence.state != SequenceState::kWaiting || !sequence.rests) continue;
    sequence.rests = false;
    desk_.Wake(*sequence.seat);
  }
  return true;
}

// Blocks are short: whoever is younger than this one shall not get more of them.
void Batch::AbandonFetchesBehind(int32_t slot) {
  auto at = std::ranges::find(order_, slot);
  for (++at; at != order_.end(); ++at) {
    Sequence& sequence = At(*at);
    if (sequence.state != SequenceState::kFetching) continue;
    transfers_.Abandon(sequence);
    sequence.asks_store = true;
  }
}

void Batch::SetGauges() const {
  metrics::Set(metrics::kKvBlocksFree, cache_.n_free());
  metrics::Set(metrics::kKvBlocksCached, cache_.n_evictable());
  metrics::Set(metrics::kKvBlocksInUse, cache_.n_blocks() - cache_.n_free() - cache_.n_evictable());
  metrics::Set(metrics::kWindowsKept, windows_.n_entries());
}

bool Batch::IsAwaiting(const Sequence& sequence) const {
  if (!sequence.awaited) return false;
  const Sequence& other = At(sequence.awaited->slot);
  if (other.id != sequence.awaited->id) return false;
  const int32_t n_tokens = sequence.awaited->n_tokens;
  if (other.state == SequenceState::kFetching) return n_tokens <= TokensToFetch(other);
  return other.state == SequenceState::kRunning && other.in_prompt() &&
         std::ssize(other.stored()) < n_tokens;
}

bool Batch::FindAwaited(Sequence& sequence) {
  sequence.awaited.reset();
  if (!params_.cache.shares || sequence.is_scored) return false;
  int32_t n_best = cache_.Look(sequence.root, sequence.tokens, sequence.n_known() - 1);
  for (const int32_t slot : order_) {
    const Sequence& other = At(slot);
    const bool is_computing =
        other.state == SequenceState::kRunning && other.in_prompt() && !other.is_scored;
    const bool is_fetching = other.state == SequenceState::kFetching;
    if ((!is_computing && !is_fetching) || other.root != sequence.root) continue;
    if (other.rank > sequence.rank) continue;  // it may not move for long
    const auto prompt =
        std::span(other.tokens)
            .first(static_cast<size_t>(is_fetching ? TokensToFetch(other) : other.n_prompt));
    const int32_t n_shared = SharedTokens(prompt, sequence.tokens);
    // Both of them new: who has given way knows more than its prompt, and the second half of its
    // layers began before the other's.
    const bool is_equal = n_shared == other.n_known() && n_shared == sequence.n_known() &&
                          n_shared == sequence.n_prompt;
    const int32_t n_whole =
        std::min(n_shared, sequence.n_known() - 1) / kv::kBlockTokens * kv::kBlockTokens;
    if (!is_equal && (n_whole <= n_best || n_whole <= std::ssize(other.stored()))) continue;
    n_best = n_whole;
    sequence.awaited = {.slot = slot,
                        .id = other.id,
                        .n_tokens = is_equal ? n_shared : n_whole,
                        .is_fork = is_equal};
    if (is_equal) return true;
  }
  return sequence.awaited.has_value();
}

// A compact prompt has no logits before its last window.
ReplayRule Batch::RuleFor(const Sequence& sequence) const {
  ReplayRule rule = params_.rule;
  if (sequence.is_scored) rule.prefill = Prefill::kFull;
  return rule;
}

bool Batch::TryStart(Sequence& sequence, int64_t n_spoken_for, Time now) {
  const kv::Cache::Start start{.root = sequence.root,
                               .tokens = sequence.tokens,
                               .n_max = sequence.is_scored ? 0 : sequence.n_known() - 1,
                               .n_spoken_for = n_spoken_for,
                               .is_first = sequence.seat == At(order_.front()).seat};
  if (AsksStore(sequence, start, now)) return true;
  if (sequence.fetch.n_found > 0) {
    const Transfers::Loading loading = transfers_.Load(start, sequence, now);
    if (loading != Transfers::Loading::kNothing) return loading == Transfers::Loading::kStarted;
  }
  kv::Cache::Copy copy;
  const std::optional<kv::Cache::Hit> hit = cache_.Take(start, sequence.lease, copy);
  if (!hit) return false;
  executor_.CopyRows(copy);
  sequence.Start(RuleFor(sequence), hit->n_tokens);
  FindWindows(sequence);
  sequence.seat->work().zones.Add(Zone::kAdmit, now - sequence.waits_since);
  // Of the first start alone: what comes back after it gave way was computed for this request.
  if (sequence.was_counted || sequence.is_scored) return true;
  NoteHit(sequence, hit->n_tokens);
  counts_.n_hit += hit->n_tokens;
  const int32_t n_loaded = AccountForHit(sequence, *hit, cache_, params_.cache.shares);
  sequence.seat->work().n_loaded = n_loaded;
  counts_.n_loaded += n_loaded;
  return true;
}

void Batch::NoteHit(Sequence& sequence, int32_t n_told) {
  sequence.was_counted = true;
  sequence.n_told = n_told;
  desk_.NoteCached(*sequence.seat, n_told);
  counts_.n_asked += sequence.n_prompt;
}

// Once before each start, and not long before it: what is found does not stay for ever.
bool Batch::AsksStore(Sequence& sequence, const kv::Cache::Start& start, Time now) {
  if (!sequence.asks_store || !params_.cache.shares || sequence.is_scored) return false;
  const int32_t n_local = cache_.Look(start.root, start.tokens, start.n_max);
  const int64_t n_needed = kv::Layout::BlocksFor(sequence.n_known()) - n_local / kv::kBlockTokens;
  const bool fits = start.is_first || n_needed + start.n_spoken_for <= cache_.n_available();
  return fits && transfers_.Find(sequence, n_local, now);
}

void Batch::FindWindows(Sequence& sequence) {
  if (sequence.n_hit == 0) return;
  const auto serves = [&](const kv::WindowEntry& entry, int32_t n_tokens) {
    return WindowsServe(params_.rule, sequence.n_prompt, n_tokens, entry.n_prompt,
                        entry.n_tokens());
  };
  const kv::WindowCache::Match match =
      windows_.Find(sequence.root, sequence.tokens, sequence.n_hit, serves);
  if (match.entry == nullptr || match.n_tokens <= sequence.n_run) return;
  executor_.CopySlot(match.entry->slot, sequence.slot());
  sequence.UseWindows(*match.entry, match.n_tokens);
  ++counts_.n_windows;
  metrics::Add(metrics::kWindowHits);
}

// A sequence of a window or less is run again as quickly.
void Batch::KeepWindows(const Sequence& sequence, int32_t slot) {
  const bool has_some = sequence.state == SequenceState::kRunning && !sequence.is_sick &&
                        !sequence.is_scored && sequence.n_run >= sequence.n_hit &&
                        sequence.n_run > params_.rule.window;
  if (!has_some) return;
  kv::WindowEntry* entry = windows_.Keep(sequence.root, sequence.stored());
  if (entry == nullptr) return;
  entry->n_least = std::max(sequence.n_least, sequence.n_run - params_.rule.n_slack);
  entry->n_prompt = sequence.n_prompt;
  entry->window_begin = sequence.window_begin;
  entry->decoder_begin = sequence.decoder_begin;
  executor_.CopySlot(SlotId(slot), entry->slot);
}

bool Batch::MayRun(const Sequence& sequence) {
  wire::RequestDesk::Seat& seat = *sequence.seat;
  const bool has_news = seat.n_sent() > 0 || seat.n_scored() > 0;
  return seat.is_ready() && !(has_news && desk_.PauseIfFull(seat));
}

StepPlan Batch::PlanRunning() {
  items_.clear();
  for (const int32_t slot : order_) {
    const Sequence& sequence = At(slot);
    if (sequence.state != SequenceState::kRunning) continue;
    items_.push_back(sequence.ToPlan(slot, MayRun(sequence)));
  }
  return engine::Plan(items_, {.n_prompt_rows = params_.n_prompt_rows,
                               .n_scores = kMaxScoredRows,
                               .n_available_blocks = cache_.n_available()});
}

void Batch::Preempt(int32_t slot, Time now) {
  Sequence& sequence = At(slot);
  KeepWindows(sequence, slot);
  cache_.Release(sequence.lease, sequence.stored());
  sequence.Stop();
  sequence.waits_since = sequence.passed_since = now;
  ++sequence.seat->work().n_preempted;
  ++counts_.n_preempted;
  metrics::Add(metrics::kPreemptions);
}

std::span<const Batch::Drawing> Batch::Run(const StepPlan& plan, Time now) {
  parts_.clear();
  for (const StepPlan::Part& part : plan.parts) {
    Sequence& sequence = At(part.slot);
    const int32_t end = part.begin + part.n_rows;
    sequence.passed_since = now;
    cache_.Grow(sequence.lease, static_cast<int32_t>(kv::Layout::BlocksFor(end)));
    parts_.push_back({.slot = SlotId(part.slot),
                      .blocks = sequence.lease.blocks,
                      .tokens = std::span(sequence.tokens).first(static_cast<size_t>(end)),
                      .begin = part.begin,
                      .n_hit = sequence.n_hit,
                      .decoder_begin = sequence.decoder_begin,
                      .window_begin = sequence.window_begin,
                      .n_logits = part.n_logits});
  }
  std::span<float> logits = executor_.Run(parts_);
  const auto n_vocab = static_cast<size_t>(executor_.info().n_vocab);
  drawings_.clear();
  for (const StepPlan::Part& part : plan.parts) {
    Sequence& sequence = At(part.slot);
    const std::span<float> own = logits.first(static_cast<size_t>(part.n_logits) * n_vocab);
    logits = logits.subspan(own.size());
    const bool falls_sick = part.draws && sequence.n_known() == sequence.n_healthy;
    sequence.is_sick = falls_sick || !IsFinite(own);
    Advance(part);
    if (own.empty()) continue;
    const std::span<float> drawn = part.draws ? own.last(n_vocab) : std::span<float>();
    drawings_.push_back(
        {.sequence = sequence, .scores = own.first(own.size() - drawn.size()), .logits = drawn});
    if (!part.draws || sequence.n_run != sequence.n_prompt) continue;
    KeepWindows(sequence, part.slot);
    ForkFrom(sequence, drawn, now);
  }
  return drawings_;
}

void Batch::NoteTimes(const StepPlan& plan, const RequestTrace& spent) {
  for (const StepPlan::Part& part : plan.parts) At(part.slot).seat->work().zones.Add(spent);
}

void Batch::Advance(const StepPlan::Part& part) {
  Sequence& sequence = At(part.slot);
  const int32_t n_replayed = std::clamp(sequence.n_hit - sequence.n_run, 0, part.n_rows);
  counts_.n_replayed += n_replayed;
  metrics::Add(metrics::kReplayedRows, n_replayed);
  sequence.n_run += part.n_rows;
  wire::Work& work = sequence.seat->work();
  ++work.n_steps;
  work.n_rows += part.n_rows;
  work.n_replayed += n_replayed;
  cache_.Seal(sequence.lease, sequence.stored());
  if (sequence.in_prompt()) {
    desk_.NotePrompt(*sequence.seat, std::max(sequence.n_hit, sequence.n_run));
  }
}

// Those whose prompt is the same go on as copies, and draw from the same logits.
void Batch::ForkFrom(const Sequence& leader, std::span<float> logits, Time now) {
  if (leader.is_sick) return;  // its followers find out for themselves
  const int32_t from = leader.seat->slot();
  for (const int32_t slot : order_) {
    Sequence& sequence = At(slot);
    const bool is_follower = sequence.awaited && sequence.awaited->is_fork &&
                             sequence.awaited->id == leader.id && sequence.seat->is_ready();
    if (!is_follower) continue;
    transfers_.Abandon(sequence);  // what a store has found of it
    kv::Cache::Copy copy;
    if (!cache_.Fork(leader.lease, leader.n_run, sequence.lease, copy)) continue;
    executor_.CopyRows(copy);
    executor_.CopySlot(SlotId(from), SlotId(slot));
    sequence.StartAsCopyOf(leader);
    sequence.is_sick = sequence.n_known() == sequence.n_healthy;
    // The choices of one request share the prompt, and what was found of it.
    const bool is_choice = sequence.seat->request().prompt == leader.seat->request().prompt;
    if (!sequence.was_counted) {
      NoteHit(sequence, is_choice ? leader.n_told : leader.n_prompt);
      counts_.n_hit += sequence.n_prompt;
      AccountForFork(sequence);
    }
    sequence.seat->work().zones.Add(Zone::kAdmit, now - sequence.waits_since);
    sequence.seat->work().n_forked = sequence.n_prompt;
    ++counts_.n_forked;
    metrics::Add(metrics::kForks);
    drawings_.back().is_shared = true;
    drawings_.push_back({.sequence = sequence, .scores = {}, .logits = logits, .is_shared = true});
  }
}

std::string Batch::CheckInvariants() const {
  std::string wrong;
  std::vector<const kv::Lease*> leases;
  for (size_t slot = 0; slot < sequences_.size(); ++slot) {
    const Sequence& sequence = sequences_[slot];
    leases.push_back(&sequence.lease);
    const bool holds = !sequence.lease.blocks.empty();
    if (holds && sequence.state != SequenceState::kRunning &&
        sequence.state != SequenceState::kFetching) {
      wrong += fmt::format("slot {} holds blocks and does not run; ", slot);
    }
    if ((sequence.state != SequenceState::kNone) !=
        (std::ranges::count(order_, static_cast<int32_t>(slot)) == 1)) {
      wrong += fmt::format("slot {} is lost; ", slot);
    }
  }
  return wrong + cache_.CheckInvariants(leases, transfers_.reserved());
}

}  // namespace sluice::engine
