// What a step costs besides the model: taking requests, planning, blocks, events; and the planner
// alone. Sequences of a script decode over a model without arithmetic, and each answer is compared
// with its script. Seconds are those of the processor, so that a busy machine does not change them;
// one thread.
//
// Twice: with a vocabulary of a few tokens, and with that of DeepSeek-V4.1. The difference is the
// reading of logits, 517 KB a row, which memory bounds whoever does it; it is shown as a share of
// what this machine reads from memory in that time.
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
constexpr int32_t kFewTokens = 256;
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
  TimedModel(int32_t n_vocab, double& spent_s)
      : model_({.n_vocab = n_vocab, .n_context = 1024, .eos = TokenId(1), .has_logits = false}),
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
  double besides_us() const { return step_us - model_us; }
};

std::vector<TokenId> Answer(uint64_t id) {
  std::vector<TokenId> ids;
  for (int32_t i = 0; i < kAnswerTokens; ++i) {
    ids.push_back(TokenId(2 + static_cast<int32_t>(id * 7919 + static_cast<uint64_t>(i)) % 200));
  }
  return ids;
}

wire::GenerateRequest Scripted(uint64_t id) {
  wire::GenerateRequest request = Ask(
      id, std::vector<TokenId>(kPromptTokens, TokenId(2 + static_cast<int32_t>(id) % 200)), 1000);
  wire::ScriptPlay play;
  play.ids = Answer(id);
  request.script = std::make_shared<const wire::ScriptPlay>(std::move(play));
  return request;
}

// What one core reads from memory.
double ReadRate_bytes_per_s() {
  const std::vector<float> values(64 << 20, 1.0F);
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    SLUICE_CHECK(IsFinite(values));
    rates.push_back(static_cast<double>(values.size() * sizeof(float)) / Seconds(start));
  }
  std::sort(rates.begin(), rates.end());
  return rates[kRounds / 2];
}

// One decoding step of n_seqs sequences: the median of rounds.
Costs MeasureStep(int32_t n_seqs, int32_t n_vocab) {
  double model_s = 0;
  EngineInVirtualTime world;
  world.StartWith(
      {.max_running = n_seqs, .max_waiting = 0, .n_context = 1024, .n_prompt_rows = 4096},
      std::make_unique<TimedModel>(n_vocab, model_s));
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
  return {.step_us = median(steps_us), .model_us = median(models_us)};
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
  const double rate = ReadRate_bytes_per_s();
  std::printf("microseconds of one step; one core reads %.1f GB/s\n", rate / 1e9);
  std::printf("%9s %9s %8s %9s %13s %16s\n", "sequences", "step", "model", "besides",
              "of the target", "reading logits");
  for (const int32_t n_seqs : {1, 8, 64, 256, 512}) {
    const Costs few = MeasureStep(n_seqs, kFewTokens);
    const Costs all = MeasureStep(n_seqs, kVocab);
    const double target_us = kStepTarget_us + kRowTarget_us * n_seqs;
    const double reading_us = all.besides_us() - few.besides_us();
    const double n_bytes = static_cast<double>(n_seqs) * kVocab * sizeof(float);
    std::printf("%9d %9.1f %8.1f %9.1f %11.0f %% %9.1f %4.0f %%\n", n_seqs, all.step_us,
                all.model_us, few.besides_us(), 100 * few.besides_us() / target_us, reading_us,
                100 * 1e6 * n_bytes / rate / reading_us);
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
