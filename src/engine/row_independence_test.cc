// The tokens of a request do not depend on what else runs, on how prompts are cut or on the number
// of threads: real rows of the tiny golden model.

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_test_impl.h"
#include "env/posix/posix_env.h"
#include "model/deepseek_v41/tiny_test_impl.h"

namespace sluice::engine {
namespace {

namespace v41 = model::deepseek_v41;

constexpr int32_t kContextTokens = 96;

model::LoadedModel LoadTiny() {
  const PosixEnv posix;
  Result<model::Loader> loader = model::Loader::Open(posix.env().fs, v41::TinyFolder());
  SLUICE_CHECK(loader.has_value());
  while (!loader->done()) SLUICE_CHECK(loader->Step().ok());
  return loader->Take();
}

// Prompts around the pieces and the window (16), drawn greedily and not.
std::vector<wire::GenerateRequest> SomeRequests(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<wire::GenerateRequest> requests;
  for (uint64_t id = 1; id <= 6; ++id) {
    const auto n_prompt = static_cast<int32_t>(1 + random() % 40);
    wire::GenerateRequest request =
        Ask(id, v41::SomeTokens(n_prompt, random()), static_cast<int32_t>(1 + random() % 9));
    request.sampling.temperature = static_cast<double>(id % 3) / 2;
    if (id % 2 == 0) request.sampling.top_p = 0.8;
    if (id % 4 == 3) request.sampling.frequency_penalty = 1.5;
    if (id % 5 == 1) request.sampling.repetition_penalty = 1.3;
    if (id % 3 == 2) request.sampling.min_p = 0.1;
    request.sampling.n_min = static_cast<int32_t>(id % 4);
    request.sampling.seed = random();
    requests.push_back(std::move(request));
  }
  return requests;
}

// What the model says without an engine: the whole prompt in one step, then token by token.
std::vector<int32_t> Alone(const wire::GenerateRequest& request) {
  v41::TinyRun run(
      {.n_seqs = 1, .n_context = kContextTokens, .n_threads = 1, .arithmetic = {}, .model = {}});
  const SampleParams sample{.temperature = request.sampling.temperature,
                            .top_p = request.sampling.top_p,
                            .min_p = request.sampling.min_p,
                            .seed = *request.sampling.seed};
  Sampler sampler;
  TokenHistory history = HistoryOf(*request.prompt, v41::Tiny().info().n_vocab);
  std::vector<int32_t> tokens;
  std::vector<TokenId> next = *request.prompt;
  while (std::ssize(tokens) < request.n_max) {
    std::vector<float> logits = run.Run({{.seq = 0, .tokens = next, .n_logits = 1}}).logits;
    Adjust({.sampling = request.sampling,
            .banned = {},
            .stop_ids = {},
            .eos = v41::Tiny().info().eos,
            .n_generated = static_cast<int32_t>(tokens.size()),
            .history = history},
           logits);
    const TokenId token = *sampler.Sample(logits, sample, run->length(0));
    if (token == v41::Tiny().info().eos) break;
    Count(token, history);
    tokens.push_back(token.value);
    next = {token};
  }
  return tokens;
}

struct Setting {
  int32_t max_running;
  int32_t n_prompt_rows;
  int32_t n_threads;
};

// Submits the requests, with others that come and go between them: each leaves its slot to somebody
// else in the middle.
void RunAmongOthers(const Setting& setting,
                    const std::vector<wire::GenerateRequest>& requests,
                    std::mt19937& random,
                    const std::vector<std::vector<int32_t>>& wanted) {
  EngineInVirtualTime run;
  run.engine = std::make_unique<Engine>(Engine::Params{.max_running = setting.max_running,
                                                       .max_waiting = 64,
                                                       .n_context = kContextTokens,
                                                       .n_prompt_rows = setting.n_prompt_rows,
                                                       .n_threads = setting.n_threads},
                                        LoadTiny());
  std::vector<Listener*> clients;
  uint64_t other_id = 100;
  for (const wire::GenerateRequest& request : requests) {
    clients.push_back(&run.Submit(request));
    if (random() % 2 == 0) run.Submit(Ask(++other_id, v41::SomeTokens(20, random()), 30));
    for (auto n_steps = random() % 3; n_steps > 0; --n_steps) run.engine->Step(At(0));
    if (random() % 2 == 0) run.engine->Cancel(RequestId(other_id));
    run.DrainAll();
  }
  for (uint64_t id = 101; id <= other_id; ++id) run.engine->Cancel(RequestId(id));
  run.RunAt(At(0));
  EXPECT_TRUE(run.engine->idle());
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(clients[i]->ended() && clients[i]->end().status.ok()) << i;
    EXPECT_EQ(TokensOf(*clients[i]), wanted[i]) << "request " << i;
  }
}

TEST(RowIndependence, TokensAreThoseOfTheRequestAlone) {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::vector<wire::GenerateRequest> requests = SomeRequests(static_cast<uint32_t>(seed));
  std::vector<std::vector<int32_t>> wanted;
  for (const wire::GenerateRequest& request : requests) wanted.push_back(Alone(request));

  const Setting settings[] = {{1, 7, 1}, {1, 64, 1}, {3, 7, 2}, {3, 64, 1}, {8, 7, 1}, {8, 64, 2}};
  for (const Setting& setting : settings) {
    SCOPED_TRACE(testing::Message() << setting.max_running << " at once, " << setting.n_prompt_rows
                                    << " rows of prompts, " << setting.n_threads << " threads");
    RunAmongOthers(setting, requests, random, wanted);
  }
}

// vllm#51187: "3 distinct outputs" of 5 runs with 44 sequences at once; 8 were fine.
TEST(RowIndependence, C40ManyAtOnceAreBitEqualEachTime) {
  constexpr int32_t kSequences = 48;
  constexpr int kRuns = 5;
  std::vector<wire::GenerateRequest> requests;
  for (uint32_t id = 1; id <= kSequences; ++id) {
    wire::GenerateRequest request =
        Ask(id, v41::SomeTokens(static_cast<int32_t>(1 + id % 7), id), 3);
    request.sampling.temperature = id % 2;
    request.sampling.seed = id;
    request.sampling.logprobs = true;
    request.sampling.n_top_logprobs = 3;
    requests.push_back(std::move(request));
  }
  using Told = std::vector<std::pair<int32_t, float>>;  // tokens with their log probabilities
  const auto answers = [&requests](int n_threads) {
    EngineInVirtualTime run;
    run.engine = std::make_unique<Engine>(Engine::Params{.max_running = kSequences,
                                                         .max_waiting = 0,
                                                         .n_context = kContextTokens,
                                                         .n_prompt_rows = 16,
                                                         .n_threads = n_threads},
                                          LoadTiny());
    std::vector<Listener*> clients;
    for (const wire::GenerateRequest& request : requests) clients.push_back(&run.Submit(request));
    run.RunAt(At(0));
    std::vector<Told> told;
    for (const Listener* client : clients) {
      Told& of_client = told.emplace_back();
      for (const wire::TokenEvent& event : client->events) {
        for (size_t i = 0; i < event.logprobs.size(); ++i) {
          of_client.emplace_back(event.tokens[i].value, event.logprobs[i].logprob);
          for (const auto& [token, logprob] : event.logprobs[i].alternatives)
            of_client.emplace_back(token.value, logprob);
        }
      }
    }
    return told;
  };
  const std::vector<Told> first = answers(1);
  for (const Told& told : first) EXPECT_FALSE(told.empty());
  for (int run = 1; run < kRuns; ++run) EXPECT_EQ(answers(1 + run % 2), first) << "run " << run;
}

}  // namespace
}  // namespace sluice::engine
