// A model without windows: what the options of windows say makes no difference to it.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_test_impl.h"
#include "engine/tiny_models_test_impl.h"

namespace sluice::engine {
namespace {

constexpr int32_t kContextTokens = 320;

struct Switches {
  Prefill prefill = Prefill::kCompact;
  Replay replay = Replay::kBounded;
  int32_t n_windows = 0;
};

constexpr Switches kSwitches[] = {{Prefill::kCompact, Replay::kBounded, 0},
                                  {Prefill::kFull, Replay::kExact, 4},
                                  {Prefill::kCompact, Replay::kExact, 4},
                                  {Prefill::kFull, Replay::kBounded, 1}};

class NoWindows : public testing::TestWithParam<TinyModel>, protected EngineInVirtualTime {
 protected:
  void StartTiny(const Switches& switches, kv::MemoryStore* kept = nullptr) {
    engine = std::make_unique<Engine>(Engine::Params{.max_running = 2,
                                                     .max_waiting = 8,
                                                     .n_context = kContextTokens,
                                                     .n_prompt_rows = 64,
                                                     .n_windows = switches.n_windows,
                                                     .prefill = switches.prefill,
                                                     .replay = switches.replay,
                                                     .store = kept,
                                                     .checks_invariants = true},
                                      Load(GetParam()));
  }
  // Log probabilities of the answer to a prompt of n tokens.
  std::vector<float> Answer(uint64_t id, int32_t n) {
    wire::GenerateRequest request = Ask(id, SomeTokens(GetParam(), n, 3), 8);
    request.sampling.logprobs = true;
    request.sampling.n_min = 8;
    last = &Submit(std::move(request));
    RunAt(At(static_cast<int64_t>(id)));
    SLUICE_CHECK(last->ended() && last->end().status.ok());
    std::vector<float> told;
    for (const wire::TokenEvent& event : last->events) {
      for (const wire::TokenLogprob& logprob : event.logprobs) told.push_back(logprob.logprob);
    }
    return told;
  }

  Listener* last = nullptr;
};

TEST_P(NoWindows, NothingRunsAgainBehindAHitAndNoWindowIsKept) {
  std::vector<std::vector<float>> told;
  for (const Switches& switches : kSwitches) {
    StartTiny(switches);
    std::vector<float>& of_switches = told.emplace_back();
    for (const int32_t n : {200, 200, 130, 250}) {
      const std::vector<float> answer = Answer(static_cast<uint64_t>(of_switches.size() + 1), n);
      EXPECT_EQ(answer.size(), 8u);
      of_switches.insert(of_switches.end(), answer.begin(), answer.end());
    }
    const Batch::Counts& counts = engine->batch()->counts();
    EXPECT_EQ(counts.n_hit, 198 + 128 + 200);
    EXPECT_EQ(counts.n_replayed, 0);
    EXPECT_EQ(counts.n_windows, 0);
    const std::vector<float> first(of_switches.begin(), of_switches.begin() + 8);
    EXPECT_EQ(std::vector<float>(of_switches.begin() + 8, of_switches.begin() + 16), first)
        << "a hit changed something";
    EXPECT_EQ(of_switches, told[0]);
  }
}

TEST_P(NoWindows, WhatTheStoreHasIsThatOfAllOfThem) {
  kv::MemoryStore kept;
  std::vector<float> cold;
  for (const Switches& switches : kSwitches) {
    StartTiny(switches, &kept);
    const std::vector<float> answer = Answer(1, 200);
    if (cold.empty()) cold = answer;
    EXPECT_EQ(answer, cold);
    EXPECT_EQ(engine->batch()->counts().n_loaded > 0, &switches != &kSwitches[0]);
    engine->CancelAll();
    while (!engine->idle()) engine->Step(At(1'000));
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         NoWindows,
                         testing::Values(TinyModels()[1], TinyModels()[3]),
                         [](const auto& tiny) { return tiny.param.name; });

}  // namespace
}  // namespace sluice::engine
