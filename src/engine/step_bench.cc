// What a step costs besides the model: taking requests, planning, blocks, events; and the planner
// alone. Sequences of a script decode over a model without arithmetic, with the vocabulary of
// DeepSeek-V4.1, and each answer is compared with its script. Seconds are those of the processor,
// so that a busy machine does not change them; one thread.
//
// The reading of logits is shown apart: it is bound by memory, 517 KB a row, whoever does it.
//
//   engine_step_bench

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine_test_impl.h"
#include "engine/planner.h"
#include "model/stub.h"

namespace sluice::engine {
namespace {

constexpr int32_t kVocab = 129'280;
constexpr int32_t kPromptTokens = 100;
constexpr int32_t kAnswerTokens = 400;
constexpr int kRounds = 9;

// Targets of microseconds.
constexpr double kStepTarget_us = 30;
constexpr double kRowTarget_us = 2;
constexpr double kPlanTarget_us = 5;

double Seconds(std::clock_t since) {
  return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

// Knows how long it took.
class TimedModel final : public model::Model {
 public:
  explicit TimedModel(double& spent_s)
      : model_({.n_vocab = kVocab, .n_context = 1024, .eos = TokenId(1), .has_logits = false}),
        spent_s_(spent_s) {}
  const model::ModelInfo& info() const override { return model_.info(); }
  int64_t WorkspaceBytes(const model::BatchLimits& limits) const override {
    return model_.WorkspaceBytes(limits);
  }
  Status Check(const model::StepBatch& batch, const model::BatchLimits& limits) const override {
    return model_.Check(batch, limits);
  }
  void Forward(const model::StepBatch& batch,
               const model::Workspace& workspace,
               const model::StepOutputs& out) override {
    const std::clock_t start = std::clock();
    model_.Forward(batch, workspace, out);
    spent_s_ += Seconds(start);
  }

 private:
  model::StubModel model_;
  double& spent_s_;
};

struct Costs {
  double step_us = 0;
  double model_us = 0;
  double logits_us = 0;  // read once, for all rows of a step
  double besides_us() const { return step_us - model_us - logits_us; }
};

std::vector<TokenId> Answer(uint64_t id) {
  std::vector<TokenId> ids;
  for (int32_t i = 0; i < kAnswerTokens; ++i) {
    ids.push_back(
        TokenId(2 + static_cast<int32_t>(id * 7919 + static_cast<uint64_t>(i)) % 100'000));
  }
  return ids;
}

wire::GenerateRequest Scripted(uint64_t id) {
  wire::GenerateRequest request =
      Ask(id, std::vector<TokenId>(kPromptTokens, TokenId(static_cast<int32_t>(id) + 10)), 100'000);
  wire::ScriptPlay play;
  play.ids = Answer(id);
  request.script = std::make_shared<const wire::ScriptPlay>(std::move(play));
  return request;
}

double ReadLogits_us(int32_t n_rows) {
  const std::vector<float> logits(static_cast<size_t>(n_rows) * kVocab);
  bool all_finite = true;
  int n_times = 0;
  const std::clock_t start = std::clock();
  for (; Seconds(start) < 0.3; ++n_times) {
    for (int32_t row = 0; row < n_rows; ++row) {
      const auto begin = static_cast<size_t>(row) * kVocab;
      all_finite = IsFinite(std::span(logits).subspan(begin, kVocab)) && all_finite;
    }
  }
  SLUICE_CHECK(all_finite);
  return 1e6 * Seconds(start) / n_times;
}

// One decoding step of n_seqs sequences: the median of rounds.
Costs MeasureStep(int32_t n_seqs) {
  double model_s = 0;
  EngineInVirtualTime world;
  world.StartWith(
      {.max_running = n_seqs, .max_waiting = 0, .n_context = 1024, .n_prompt_rows = 4096},
      std::make_unique<TimedModel>(model_s));
  std::vector<Listener*> clients;
  for (int32_t i = 1; i <= n_seqs; ++i) {
    clients.push_back(&world.Submit(Scripted(static_cast<uint64_t>(i))));
  }
  while (clients.back()->events.empty()) {
    world.engine->Step(At(0));
    world.DrainAll();
  }
  std::vector<double> steps_us;
  std::vector<double> models_us;
  constexpr int kStepsOfRound = 20;
  for (int round = 0; round < kRounds; ++round) {
    double step_s = 0;
    model_s = 0;
    for (int i = 0; i < kStepsOfRound; ++i) {
      const std::clock_t start = std::clock();
      world.engine->Step(At(0));
      step_s += Seconds(start);
      world.DrainAll();
    }
    steps_us.push_back(1e6 * step_s / kStepsOfRound);
    models_us.push_back(1e6 * model_s / kStepsOfRound);
  }
  world.RunAt(At(0));
  for (size_t i = 0; i < clients.size(); ++i) {
    std::vector<int32_t> wanted;
    for (const TokenId id : Answer(i + 1)) wanted.push_back(id.value);
    SLUICE_CHECK(clients[i]->ended() && TokensOf(*clients[i]) == wanted);
  }
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
    return values[kRounds / 2];
  };
  return {.step_us = median(steps_us),
          .model_us = median(models_us),
          .logits_us = ReadLogits_us(n_seqs)};
}

// All decode, or a quarter of them has a prompt of 1,000 rows to go.
double MeasurePlanner_us(int32_t n_seqs, bool has_prompts) {
  std::vector<PlanItem> items;
  for (int32_t slot = 0; slot < n_seqs; ++slot) {
    const bool is_prompt = has_prompts && slot % 4 == 0;
    items.push_back({.slot = slot,
                     .n_run = 100,
                     .n_known = is_prompt ? 1100 : 101,
                     .n_blocks = 2,
                     .is_decoding = !is_prompt});
  }
  const StepLimits limits{.n_prompt_rows = 512, .n_available_blocks = 100'000};
  size_t n_parts = 0;
  int n_times = 0;
  const std::clock_t start = std::clock();
  for (; Seconds(start) < 0.3; ++n_times) n_parts = Plan(items, limits).parts.size();
  SLUICE_CHECK(n_parts >= static_cast<size_t>(has_prompts ? n_seqs * 3 / 4 : n_seqs));
  return 1e6 * Seconds(start) / n_times / n_seqs;
}

int Main() {
  std::printf("microseconds of one step, %d tokens of vocabulary\n", kVocab);
  std::printf("%9s %10s %10s %14s %10s %12s\n", "sequences", "step", "model", "reading logits",
              "besides", "target");
  for (const int32_t n_seqs : {1, 8, 64, 256, 512}) {
    const Costs costs = MeasureStep(n_seqs);
    const double target_us = kStepTarget_us + kRowTarget_us * n_seqs;
    std::printf("%9d %10.1f %10.1f %14.1f %10.1f %7.0f %3.0f %%\n", n_seqs, costs.step_us,
                costs.model_us, costs.logits_us, costs.besides_us(), target_us,
                100 * costs.besides_us() / target_us);
  }
  for (const bool has_prompts : {false, true}) {
    const double us = MeasurePlanner_us(512, has_prompts);
    std::printf("planner, 512 sequences%s: %.3f us a sequence, %.0f %% of the target\n",
                has_prompts ? ", a quarter in their prompts" : "", us, 100 * us / kPlanTarget_us);
  }
  return 0;
}

}  // namespace
}  // namespace sluice::engine

int main() { return sluice::engine::Main(); }
