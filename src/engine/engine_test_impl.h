// What the tests of the engine share: a model that counts, and an engine in virtual time with its
// clients. Thread-compatible.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "kv/memory_store_test_impl.h"
#include "wire/scripted_service_test_impl.h"

namespace sluice::engine {

using wire::At;
using wire::Listener;

// Behind token t it wants t + 1, whatever came before; the end token is the last one. A row of
// kSick gives logits that are no numbers.
class CountingModel final : public model::Model {
 public:
  static constexpr int32_t kVocab = 100;
  static constexpr int32_t kContext = 64;
  static constexpr TokenId kEnd{kVocab - 1};
  static constexpr TokenId kSick{80};
  // By how much the wanted token's logit is above the others, which are 0. 0: anything goes.
  float lead = 50;
  // Rows of each step so far, by sequence.
  std::vector<std::vector<int32_t>>* steps = nullptr;

  explicit CountingModel(int32_t n_context = kContext) {
    info_.n_vocab = kVocab;
    info_.n_context = n_context;
    info_.eos = kEnd;
  }
  const model::ModelInfo& info() const override { return info_; }
  int64_t WorkspaceBytes(const model::BatchLimits&) const override { return 0; }
  Status Check(const model::StepBatch& batch, const model::BatchLimits& limits) const override {
    SLUICE_CHECK(std::ssize(batch.rows) <= limits.n_rows);
    SLUICE_CHECK(std::ssize(batch.seqs) <= limits.n_seqs);
    int32_t n_logits = 0;
    for (const model::Row& row : batch.rows) {
      SLUICE_CHECK(row.pos < limits.n_context);
      n_logits += (row.flags & model::kNeedsLogits) != 0 ? 1 : 0;
    }
    SLUICE_CHECK(n_logits <= limits.n_logits);
    return Status::Ok();
  }
  void Forward(const model::StepBatch& batch,
               const model::Workspace&,
               const model::StepOutputs& out) override {
    if (steps != nullptr) {
      std::vector<int32_t>& rows = steps->emplace_back();
      for (const model::SeqView& seq : batch.seqs) rows.push_back(seq.n_rows);
    }
    float* logits = out.logits;
    for (const model::Row& row : batch.rows) {
      if ((row.flags & model::kNeedsLogits) == 0) continue;
      const bool is_sick = row.token == kSick;
      std::fill_n(logits, kVocab, is_sick ? std::numeric_limits<float>::quiet_NaN() : 0);
      logits[(row.token.value + 1) % kVocab] += lead;
      logits += kVocab;
    }
  }

 private:
  model::ModelInfo info_;
};

inline wire::GenerateRequest Ask(uint64_t id, std::vector<TokenId> prompt, int32_t n_max) {
  wire::GenerateRequest request;
  request.id = RequestId(id);
  request.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
  request.n_max = n_max;
  request.sampling.temperature = 0;
  return request;
}
inline wire::GenerateRequest Ask(uint64_t id, TokenId only, int32_t n_max) {
  return Ask(id, std::vector<TokenId>{only}, n_max);
}

inline std::vector<int32_t> TokensOf(const Listener& client) {
  std::vector<int32_t> tokens;
  for (const wire::TokenEvent& event : client.events) {
    SLUICE_CHECK(event.first_index == std::ssize(tokens));
    for (TokenId token : event.tokens) tokens.push_back(token.value);
  }
  return tokens;
}
// first, first + 1, ...
inline std::vector<int32_t> Counting(int32_t first, int32_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// An engine with its clients, and a clock that only tests move.
struct EngineInVirtualTime {
  static Engine::Params Defaults() {
    return {.max_running = 4,
            .max_waiting = 4,
            .n_context = CountingModel::kContext,
            .n_prompt_rows = 8,
            .checks_invariants = true};
  }
  Engine& Start(const Engine::Params& params = Defaults(), float lead = 50) {
    auto counting = std::make_unique<CountingModel>(params.n_context);
    counting->lead = lead;
    counting->steps = &steps;
    return StartWith(params, std::move(counting));
  }
  Engine& StartWith(const Engine::Params& params, std::unique_ptr<model::Model> model) {
    engine =
        std::make_unique<Engine>(params, model::LoadedModel{.checkpoint = nullptr,
                                                            .model = std::move(model),
                                                            .weights_revision = weights_revision});
    return *engine;
  }
  Listener& Submit(wire::GenerateRequest request) {
    Listener& client = listeners.emplace_back(ready);
    SLUICE_CHECK(engine->Submit(std::move(request), client.queue).ok());
    return client;
  }
  Status Refusal(wire::GenerateRequest request) {
    return engine->Submit(std::move(request), listeners.emplace_back(ready).queue);
  }
  // first, first + 1, ... below 50, again and again.
  static std::vector<TokenId> Prompt(int32_t n, int32_t first = 0) {
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < n; ++i) tokens.emplace_back((first + i) % 50);
    return tokens;
  }
  // That ran so far.
  int32_t Rows() const {
    int32_t n = 0;
    for (const std::vector<int32_t>& step : steps) {
      n += std::accumulate(step.begin(), step.end(), 0);
    }
    return n;
  }
  void DrainAll() {
    for (Listener& listener : listeners) listener.Drain();
  }
  // Steps and drains at `now` until nothing more happens at that time.
  void RunAt(Time now) {
    for (int i = 0; engine->Step(now) <= now; ++i) {
      SLUICE_CHECK(i < 100'000);  // it never rests
      DrainAll();
    }
    DrainAll();
  }

  ReadyList ready{Bell{}};
  std::deque<Listener> listeners;
  std::vector<std::vector<int32_t>> steps;
  std::string weights_revision;
  kv::MemoryStore store;  // of engines that are given it
  std::unique_ptr<Engine> engine;
};

}  // namespace sluice::engine
