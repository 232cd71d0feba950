// hop 4 of 10: after Submit, before Plan.
// hop 9 of 10: after Sample, before Encode.

#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "wire/script_player.h"

namespace sluice::engine {
namespace {

// What a client is told to wait while a model loads. Its time is an estimate, so nobody is sent
// away for an hour, and nobody comes back at once.
constexpr Duration kLeastRetry = Duration::Seconds(1);
constexpr Duration kLongestRetry = Duration::Seconds(60);

// Purpose of the random numbers that become seeds of requests.
constexpr uint64_t kRequestSeed = uint64_t{1} << 40;

Status Sick() { return {ErrorCode::kInternal, "the model computed a value that is not finite"}; }
Status NothingLeft() {
  return Status::Invalid(
      "no token is left to go on with: all are ruled out by `min_tokens`, the stop ids and the "
      "tokens that are never sampled");
}

int32_t NumBlocks(const Engine::Params& params) {
  const auto n_of_one = static_cast<int32_t>(kv::Layout::BlocksFor(params.n_context));
  return params.n_blocks > 0 ? params.n_blocks : params.max_running * n_of_one;
}

// A model without windows has all that a row reads in its blocks: options make no difference, not
// even in the names of prefixes.
ReplayRule RuleOf(const Engine::Params& params, const model::ModelInfo& info) {
  if (info.window == 0) return {.prefill = Prefill::kFull, .replay = Replay::kExact};
  ReplayRule rule{.prefill = params.prefill,
                  .replay = params.replay,
                  .window = info.window,
                  .n_replay = info.window,
                  .n_slack = info.n_slack};
  if (params.replay == Replay::kExact) {
    rule.n_replay = params.prefill == Prefill::kCompact ? info.n_exact_replay
                                                        : info.n_layers * (info.window - 1);
  }
  return rule;
}

}  // namespace

Engine::Engine(const Params& params)
    : params_(params),
      desk_({.n_running_max = params.max_running,
             .n_waiting_max = params.max_waiting,
             .bell = params.bell}) {
  SLUICE_CHECK(params.n_prompt_rows >= 1);
}

Engine::Engine(const Params& params, model::Loader loader) : Engine(params) {
  total_bytes_.store(loader.progress().total_bytes);
  loader_.emplace(std::move(loader));
}

Engine::Engine(const Params& params, model::LoadedModel loaded) : Engine(params) {
  Open(std::move(loaded));
}

Time Engine::Step(Time now) {
  if (state_.load(std::memory_order_relaxed) == State::kLoading) {
    LoadPiece(now);
    return now;
  }
  desk_.BeginStep(now);
  if (!batch_) return desk_.EndStep(now);  // it could not be loaded
  batch_->ReleaseEnded();
  Admit(now);
  const Time begin = Measured(now);
  const StepPlan plan = batch_->Plan(now);
  if (!plan.parts.empty()) {
    Run(plan, begin, now);
    fault_.ok() ? batch_->ReleaseEnded() : Recover();
    if (params_.clock != nullptr) {
      metrics::Observe(metrics::kStepTime, (Measured(now) - begin).seconds());
    }
  }
  batch_->Save();
  if (params_.checks_invariants) {
    const std::string wrong = batch_->CheckInvariants();
    if (!wrong.empty()) CheckFailed(wrong.c_str(), __FILE__, __LINE__);
  }
  return desk_.EndStep(now);
}

void Engine::Run(const StepPlan& plan, Time begin, Time now) {
  const Time planned = Measured(now);
  const std::span<const Batch::Drawing> drawings = batch_->Run(plan, now);
  RequestTrace spent;
  spent.Add(Zone::kPlan, planned - begin);
  spent.Add(Zone::kForward, executor_->forward_time());
  spent.Add(Zone::kRun, Measured(now) - planned - executor_->forward_time());
  batch_->NoteTimes(plan, spent);
  for (const Batch::Drawing& drawing : drawings) {
    if (!fault_.ok()) return;
    Seat& seat = *drawing.sequence.seat;
    const int32_t slot = seat.slot();
    const Time begun = Measured(now);
    Commit(drawing, now);
    const bool goes_on = seat.slot() == slot;
    if (goes_on) seat.work().zones.Add(Zone::kCommit, Measured(now) - begun);
  }
}

Status Engine::Submit(wire::GenerateRequest request, wire::EventQueue& out) {
  SLUICE_TRY(Check(request));
  return desk_.Submit(std::move(request), out);
}

// The engine's own limits; what a field may hold was checked where it was read.
Status Engine::Check(const wire::GenerateRequest& request) const {
  if (state_.load(std::memory_order_acquire) != State::kServing) return RefuseUnloaded();
  if (request.script != nullptr) SLUICE_TRY(request.script->refuse);
  const int32_t n_vocab = executor_->info().n_vocab;
  const auto is_token = [n_vocab](TokenId id) { return id.value >= 0 && id.value < n_vocab; };
  const std::vector<TokenId>& prompt = *request.prompt;
  if (prompt.empty()) return Status::Invalid("the prompt is empty; it needs at least one token");
  if (std::ssize(prompt) > params_.n_context) {
    return {ErrorCode::kContextLength, fmt::format("prompt is too long: {} tokens > {} maximum",
                                                   prompt.size(), params_.n_context)};
  }
  const auto bad = std::find_if_not(prompt.begin(), prompt.end(), is_token);
  if (bad != prompt.end()) {
    return Status::Invalid(fmt::format("token {} of the prompt is {}; this model has {} tokens",
                                       bad - prompt.begin(), bad->value, n_vocab));
  }
  for (const wire::LogitBias& bias : request.sampling.logit_bias) {
    if (is_token(bias.token)) continue;
    return Status::InvalidField(
        "logit_bias", fmt::format("logit_bias: this model has no token {}", bias.token.value));
  }
  for (const TokenId id : request.stop_ids) {
    if (is_token(id)) continue;
    return Status::InvalidField(
        "stop_token_ids", fmt::format("stop_token_ids: this model has no token {}", id.value));
  }
  return Status::Ok();
}

wire::LoadReport Engine::Load() const {
  wire::LoadReport report = desk_.Load();
  if (state_.load(std::memory_order_acquire) == State::kServing) return report;
  const std::string* file = file_.load(std::memory_order_acquire);
  report.loading = wire::LoadProgress{.done_bytes = loaded_bytes_.load(std::memory_order_relaxed),
                                      .total_bytes = total_bytes_.load(std::memory_order_relaxed),
                                      .elapsed = {loading_ns_.load(std::memory_order_relaxed)},
                                      .file = file != nullptr ? *file : std::string()};
  return report;
}

Status Engine::RefuseUnloaded() const {
  // Nothing: it has been loaded in between.
  const wire::LoadProgress loading = Load().loading.value_or(wire::LoadProgress());
  Status status(ErrorCode::kOverloaded,
                fmt::format("the model is being loaded: {:.0f} % are done", loading.percent()));
  status.set_retry_after(
      std::clamp(loading.left().value_or(kLongestRetry), kLeastRetry, kLongestRetry));
  return status;
}

void Engine::LoadPiece(Time now) {
  if (!loading_since_) loading_since_ = now;
  loading_ns_.store((now - *loading_since_).ns, std::memory_order_relaxed);
  if (loader_->done()) return Open(loader_->Take());
  if (!loading_team_) loading_team_.emplace(params_.n_threads);
  if (Status status = loader_->Step(*loading_team_); !status.ok()) {
    return FailLoading(std::move(status));
  }
  const model::Loader::Progress progress = loader_->progress();
  loaded_bytes_.store(progress.done_bytes, std::memory_order_relaxed);
  if (files_.empty() || files_.back() != progress.file) {
    file_.store(&files_.emplace_back(progress.file), std::memory_order_release);
  }
}

void Engine::Open(model::LoadedModel loaded) {
  loader_.reset();
  loading_team_.reset();
  n_windows_ = loaded.model->info().window > 0 ? params_.n_windows : 0;
  Result<std::unique_ptr<Executor>> opened =
      Executor::Open({.n_slots = params_.max_running,
                      .n_windows = n_windows_,
                      .n_blocks = NumBlocks(params_),
                      .n_context = params_.n_context,
                      .n_rows = params_.max_running + params_.n_prompt_rows,
                      .n_scores = std::min(kMaxScoredRows, params_.n_prompt_rows),
                      .n_threads = params_.n_threads,
                      .clock = params_.clock,
                      .arithmetic = params_.arithmetic,
                      .isas = params_.isas},
                     std::move(loaded));
  if (!opened) return FailLoading(std::move(opened.error()));
  executor_ = std::move(*opened);
  banned_ = params_.banned;
  std::erase_if(banned_, [eos = executor_->info().eos](TokenId token) { return token == eos; });
  OpenBatch();
  state_.store(State::kServing, std::memory_order_release);
}

void Engine::OpenBatch() {
  batch_.emplace(
      Batch::Params{.n_slots = params_.max_running,
                    .n_prompt_rows = params_.n_prompt_rows,
                    .rule = RuleOf(params_, executor_->info()),
                    .arithmetic = params_.arithmetic,
                    .n_faults = n_faults_,
                    .cache = {.n_blocks = NumBlocks(params_), .shares = params_.prefix_cache},
                    .n_windows = n_windows_,
                    .secret = params_.cache_secret},
      desk_, *executor_,
      params_.store != nullptr ? *params_.store : static_cast<kv::BlockStore&>(null_store_));
}

void Engine::CancelAll() {
  desk_.CancelAll();
  if (batch_) batch_->StopSaving();
}

void Engine::FailLoading(Status status) {
  failure_ = std::move(status);
  state_.store(State::kFailed, std::memory_order_release);
}

void Engine::Admit(Time now) {
  while (Seat* seat = desk_.FirstInLine()) {
    desk_.Begin(*seat);
    const wire::GenerateRequest& request = seat->request();
    const wire::SamplingParams& sampling = request.sampling;
    const uint64_t seed = sampling.seed.value_or(
        RandomBits({.seed = params_.seed, .position = request.id.value, .stream = kRequestSeed}));
    // The last token that is generated does not go through the model.
    const auto n_room = params_.n_context - static_cast<int32_t>(request.prompt->size()) + 1;
    Sequence& seq = batch_->Begin(*seat, now);
    seq.n_max = std::min(request.n_max, n_room);
    seq.sample = {.temperature = sampling.temperature,
                  .top_p = sampling.top_p,
                  .top_k = sampling.top_k,
                  .min_p = sampling.min_p,
                  .seed = seed};
    if (sampling.repetition_penalty != 1) {
      seq.history = HistoryOf(*request.prompt, executor_->info().n_vocab);
    }
    if (request.script == nullptr) continue;
    const wire::ScriptPlay& script = *request.script;
    if (script.fault == wire::ScriptPlay::Fault::kSick) {
      seq.n_healthy = int64_t{seq.n_prompt} + script.fault_after;
    }
    const Time due = now + script.first + script.pace;
    if (due > now) desk_.Sleep(*seat, due);
  }
}

// Ends, like the end token and stop ids, are neither sent nor counted; the last token of the limit
// is both.
void Engine::Commit(const Batch::Drawing& drawing, Time now) {
  Sequence& seq = drawing.sequence;
  Seat& seat = *seq.seat;
  const wire::GenerateRequest& request = seat.request();
  if (seq.is_sick) return desk_.Fail(seat, Sick());
  wire::TokenEvent event;
  event.prompt_logprobs = Score(drawing);
  if (drawing.logits.empty()) return desk_.Send(seat, std::move(event));
  if (request.script != nullptr) return Play(seq, std::move(event), now);
  if (request.n_max == 0) return desk_.End(seat, std::move(event), wire::FinishReason::kLength);
  const Time begin = Measured(now);
  const std::optional<TokenId> drawn = Draw(drawing);
  seat.work().zones.Add(Zone::kSample, Measured(now) - begin);
  if (!drawn) return desk_.Fail(seat, NothingLeft());
  const TokenId token = *drawn;
  if (token == executor_->info().eos) {
    return desk_.End(seat, std::move(event), wire::FinishReason::kEnd);
  }
  if (std::count(request.stop_ids.begin(), request.stop_ids.end(), token) > 0) {
    return desk_.End(seat, std::move(event), wire::FinishReason::kStopId);
  }
  event.tokens.push_back(token);
  if (request.sampling.logprobs) {
    event.logprobs.push_back(LogprobOf(drawing.logits, token, request.sampling.n_top_logprobs));
  }
  if (seat.n_sent() + 1 == seq.n_max) {
    return desk_.End(seat, std::move(event), wire::FinishReason::kLength);
  }
  seq.tokens.push_back(token);
  if (HasPenalties(request.sampling)) Count(token, seq.history);
  desk_.Send(seat, std::move(event));
}

void Engine::Play(Sequence& sequence, wire::TokenEvent scored, Time now) {
  Seat& seat = *sequence.seat;
  const wire::ScriptPlay& script = *seat.request().script;
  if (wire::FaultStrikes(script, seat.n_sent())) return Strike(seat);
  wire::ScriptedEvent next = wire::NextScriptedEvent(seat.request(), seat.n_sent(), sequence.n_max);
  next.event.prompt_logprobs = std::move(scored.prompt_logprobs);
  if (next.finish != wire::FinishReason::kNone) {
    return desk_.End(seat, std::move(next.event), next.finish);
  }
  sequence.tokens.insert(sequence.tokens.end(), next.event.tokens.begin(), next.event.tokens.end());
  desk_.Send(seat, std::move(next.event));
  if (script.pace.ns > 0) desk_.Sleep(seat, now + script.pace);
}

void Engine::Strike(Seat& seat) {
  switch (seat.request().script->fault) {
    case wire::ScriptPlay::Fault::kNone:
      break;
    case wire::ScriptPlay::Fault::kSick:
      desk_.Fail(seat, Sick());
      break;
    case wire::ScriptPlay::Fault::kFail:
      fault_ = Status(ErrorCode::kInternal, "the engine failed, as its script demands");
      break;
    case wire::ScriptPlay::Fault::kHang:
      desk_.Sleep(seat, Time::Max());
      break;
    case wire::ScriptPlay::Fault::kDie:
      wire::Die();
  }
}

// What the memory holds is not to be trusted any more, so nothing of it is found again.
void Engine::Recover() {
  Log(LogLevel::kError, "the engine failed and begins anew", {{"status", fault_.message()}});
  metrics::Add(metrics::kEngineFaults);
  desk_.FailBegun(fault_);
  fault_ = Status::Ok();
  ++n_faults_;
  OpenBatch();
}

// Of the next tokens of the prompt, each of the row before it.
std::vector<wire::TokenLogprob> Engine::Score(const Batch::Drawing& drawing) const {
  const Seat& seat = *drawing.sequence.seat;
  const wire::GenerateRequest& request = seat.request();
  const auto n_vocab = static_cast<size_t>(executor_->info().n_vocab);
  std::vector<wire::TokenLogprob> scores;
  auto token = request.prompt->begin() + 1 + seat.n_scored();
  for (auto rows = drawing.scores; !rows.empty(); rows = rows.subspan(n_vocab), ++token) {
    const int32_t n_top = *request.sampling.n_prompt_logprobs;
    scores.push_back(request.script == nullptr ? LogprobOf(rows.first(n_vocab), *token, n_top)
                                               : wire::ScriptedLogprob(request, *token, n_top));
  }
  metrics::Add(metrics::kScoredTokens, std::ssize(scores));
  return scores;
}

// Changes the row, unless somebody else looks at it later.
std::optional<TokenId> Engine::Draw(const Batch::Drawing& drawing) {
  const Sequence& seq = drawing.sequence;
  const wire::GenerateRequest& request = seq.seat->request();
  const Adjustment adjustment{.sampling = request.sampling,
                              .banned = banned_,
                              .stop_ids = {request.stop_ids.data(), request.stop_ids.size()},
                              .eos = executor_->info().eos,
                              .n_generated = seq.seat->n_sent(),
                              .history = seq.history};
  std::span<float> logits = drawing.logits;
  if (Adjusts(adjustment)) {
    if (request.sampling.logprobs || drawing.is_shared) {
      adjusted_.assign(logits.begin(), logits.end());
      logits = adjusted_;
    }
    Adjust(adjustment, logits);
  }
  return sampler_.Sample(logits, seq.sample, seq.n_run);
}

}  // namespace sluice::engine
