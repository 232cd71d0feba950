// The tokens of a request do not depend on what else runs, on how prompts are cut or on the number
// of threads: real rows of the tiny golden model.

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
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
                            .seed = *request.sampling.seed};
  Sampler sampler;
  std::vector<TokenCount> generated;
  std::vector<int32_t> tokens;
  std::vector<TokenId> next = *request.prompt;
  while (std::ssize(tokens) < request.n_max) {
    std::vector<float> logits = run.Run({{.seq = 0, .tokens = next, .n_logits = 1}}).logits;
    Adjust(request.sampling, generated, logits);
    const TokenId token = sampler.Sample(logits, sample, run->length(0));
    if (token == v41::Tiny().info().eos) break;
    Count(token, generated);
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

}  // namespace
}  // namespace sluice::engine
