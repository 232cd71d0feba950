// Scripts played by the engine, over the model without arithmetic.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "engine/engine_test_impl.h"
#include "model/stub.h"

namespace sluice::engine {
namespace {

using Fault = wire::ScriptPlay::Fault;

constexpr int32_t kVocab = 300;
constexpr int32_t kContextTokens = 1024;

struct ScriptTest : testing::Test, EngineInVirtualTime {
  Engine& StartStub(Engine::Params params = {.max_running = 4, .max_waiting = 1000}) {
    params.n_context = kContextTokens;
    if (params.n_prompt_rows == 0) params.n_prompt_rows = 100;
    params.checks_invariants = true;
    return StartWith(params, std::make_unique<model::StubModel>(model::StubModel::Params{
                                 .n_vocab = kVocab, .n_context = kContextTokens, .eos = kEos}));
  }
  static constexpr TokenId kEos{256};
};

wire::ScriptPlay RandomPlay(std::mt19937& random) {
  const auto below = [&](uint32_t end) { return static_cast<int32_t>(random() % end); };
  wire::ScriptPlay play;
  for (int32_t n = below(40); n > 0; --n) play.ids.push_back(TokenId(below(256)));
  play.n_per_event = 1 + below(4);
  if (below(3) == 0) play.pace = Duration::Millis(1 + below(5));
  if (below(3) == 0) play.first = Duration::Millis(1 + below(20));
  if (below(4) == 0) {
    play.fault = Fault::kSick;
    play.fault_after = below(30);
  }
  if (below(2) == 0) play.logprob = -0.5F;
  return play;
}

// What a client can tell: tokens with their log probabilities, how it ended and what it cost.
struct Told {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<size_t> sizes;  // of events
  wire::FinishReason finish;
  int32_t n_completion;
  friend bool operator==(const Told&, const Told&) = default;
};
Told WhatWasTold(const Listener& client) {
  Told told{.finish = client.end().finish, .n_completion = client.end().usage.n_completion};
  told.tokens = TokensOf(client);
  for (const wire::TokenEvent& event : client.events) {
    if (!event.tokens.empty()) told.sizes.push_back(event.tokens.size());
    for (const wire::TokenLogprob& logprob : event.logprobs) {
      told.logprobs.push_back(logprob.logprob);
    }
  }
  return told;
}

TEST_F(ScriptTest, AClientCannotTellTheEngineFromTheScriptedService) {
  const auto seed = static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937 random(seed);
  StartStub({.max_running = 3, .max_waiting = 1000, .n_blocks = 20});
  wire::ServiceInVirtualTime plain;
  plain.Start(3, 1000);
  std::vector<std::pair<Listener*, Listener*>> pairs;
  for (uint64_t id = 1; id <= 100; ++id) {
    std::vector<TokenId> prompt(1 + random() % 300, TokenId(static_cast<int32_t>(id)));
    wire::GenerateRequest request =
        Ask(id, std::move(prompt), 1 + static_cast<int32_t>(random() % 60));
    request.sampling.logprobs = random() % 2 == 0;
    request.sampling.n_top_logprobs = 3;
    if (random() % 3 == 0) request.stop_ids = {TokenId(static_cast<int32_t>(random() % 256))};
    request.script = std::make_shared<const wire::ScriptPlay>(RandomPlay(random));
    Listener& other = plain.Listen();
    ASSERT_TRUE(plain.service->Submit(request, other.queue).ok());
    pairs.emplace_back(&Submit(std::move(request)), &other);
  }
  for (int millis = 0; millis < 20'000; ++millis) {
    RunAt(At(millis));
    plain.RunAt(At(millis));
  }
  for (const auto& [ours, theirs] : pairs) {
    ASSERT_TRUE(ours->ended() && theirs->ended()) << "seed " << seed;
    EXPECT_EQ(WhatWasTold(*ours), WhatWasTold(*theirs)) << "seed " << seed;
  }
}

wire::GenerateRequest Scripted(uint64_t id, wire::ScriptPlay play, std::vector<TokenId> prompt) {
  wire::GenerateRequest request = Ask(id, std::move(prompt), 100);
  request.script = std::make_shared<const wire::ScriptPlay>(std::move(play));
  return request;
}

TEST_F(ScriptTest, AFaultEndsWhatHasBegunAndTheRestIsServedBehindIt) {
  StartStub({.max_running = 2, .max_waiting = 4});
  const int64_t n_before = metrics::Cell(metrics::kEngineFaults);
  const std::vector<TokenId> prompt(200, TokenId(7));
  Listener& failing =
      Submit(Scripted(1, wire::SayWithFault("abcdef", Fault::kFail, 3), {TokenId(1)}));
  Listener& beside = Submit(Scripted(2, wire::Say("abcdefghijklmnop"), prompt));
  Listener& waiting = Submit(Scripted(3, wire::Say("later"), prompt));
  RunAt(At(0));
  for (const Listener* client : {&failing, &beside}) {
    ASSERT_TRUE(client->ended());
    EXPECT_EQ(client->end().finish, wire::FinishReason::kError);
    EXPECT_EQ(client->end().status.code(), ErrorCode::kInternal);
  }
  EXPECT_EQ(failing.text, "abc");
  ASSERT_TRUE(waiting.ended());
  EXPECT_EQ(waiting.text, "later");
  // What was computed before the fault is not used behind it.
  EXPECT_EQ(waiting.end().usage.n_cached, 0);
  EXPECT_EQ(metrics::Cell(metrics::kEngineFaults) - n_before, 1);
  EXPECT_TRUE(engine->idle());
}

TEST_F(ScriptTest, ASickSequenceEndsAloneAndNothingOfItsLastRowsIsFound) {
  StartStub();
  const std::vector<TokenId> prompt(200, TokenId(7));
  Listener& sick = Submit(Scripted(1, wire::SayWithFault("abcdef", Fault::kSick, 0), prompt));
  Listener& beside = Submit(Scripted(2, wire::Say("abcdef"), {TokenId(1)}));
  RunAt(At(0));
  EXPECT_EQ(sick.end().finish, wire::FinishReason::kError);
  EXPECT_EQ(beside.text, "abcdef");
  Listener& next = Submit(Scripted(3, wire::Say("x"), prompt));
  RunAt(At(1));
  EXPECT_EQ(next.text, "x");
  EXPECT_LT(next.end().usage.n_cached, 200);
}

// Equal prompts, different scripts: the fork is as well as its own script says.
TEST_F(ScriptTest, ASickScriptAndAWellOneOfOnePromptEndAsEachSays) {
  const std::vector<TokenId> prompt(200, TokenId(7));
  for (const bool is_sick_first : {true, false}) {
    StartStub();
    wire::ScriptPlay plays[] = {wire::SayWithFault("abcdef", Fault::kSick, 0), wire::Say("abcdef")};
    Listener& first = Submit(Scripted(1, plays[is_sick_first ? 0 : 1], prompt));
    Listener& second = Submit(Scripted(2, plays[is_sick_first ? 1 : 0], prompt));
    RunAt(At(0));
    Listener& sick = is_sick_first ? first : second;
    Listener& well = is_sick_first ? second : first;
    ASSERT_TRUE(sick.ended() && well.ended());
    EXPECT_EQ(sick.end().finish, wire::FinishReason::kError);
    EXPECT_EQ(well.text, "abcdef");
  }
}

TEST_F(ScriptTest, WhoHangsHoldsItsPlaceUntilItIsCancelled) {
  StartStub();
  Listener& hung = Submit(Scripted(1, wire::SayWithFault("abcdef", Fault::kHang, 2), {TokenId(1)}));
  RunAt(At(0));
  EXPECT_EQ(hung.text, "ab");
  EXPECT_EQ(engine->Load().n_running, 1);
  engine->Cancel(RequestId(1));
  RunAt(At(1));
  EXPECT_EQ(hung.end().status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(engine->idle());
}

TEST_F(ScriptTest, AScriptThatRefusesIsRefused) {
  StartStub();
  wire::ScriptPlay play;
  play.refuse = Status(ErrorCode::kRateLimited, "as its script demands");
  EXPECT_EQ(Refusal(Scripted(1, play, {TokenId(1)})).code(), ErrorCode::kRateLimited);
}

// The next turn finds all that was answered, as its KV rows are there; the cached tokens are real.
TEST_F(ScriptTest, TheNextTurnOfAScriptFindsTheAnswer) {
  StartStub();
  std::vector<TokenId> turn(100, TokenId(7));
  Submit(Scripted(1, wire::Say("abcdefghij"), turn));
  RunAt(At(0));
  for (const char c : std::string_view("abcdefghij")) turn.push_back(TokenId(c));
  turn.push_back(TokenId(8));
  turn.push_back(TokenId(9));
  Listener& next = Submit(Scripted(2, wire::Say("x"), turn));
  RunAt(At(1));
  EXPECT_EQ(next.end().usage.n_cached, 110);
}

// Greedy tokens of the model without arithmetic, from the request alone.
std::vector<int32_t> Wanted(const model::StubModel& model, const wire::GenerateRequest& request) {
  std::vector<TokenId> tokens = *request.prompt;
  const auto n_prompt = static_cast<int32_t>(tokens.size());
  const int32_t decoder_begin = std::max(0, n_prompt - model::StubModel::kWindow);
  std::vector<int32_t> wanted;
  while (std::ssize(wanted) < request.n_max) {
    const TokenId next = model.WantedBehind(tokens, decoder_begin);
    wanted.push_back(next.value);
    tokens.push_back(next);
  }
  return wanted;
}

// Each row's result is a hash of its whole prefix as memory has it: one row of another sequence,
// one that was given away or never written, and the tokens differ from those of the request alone.
TEST_F(ScriptTest, S17NoRowOfAnotherRequestIsEverRead) {
  const auto seed = static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937 random(seed);
  const auto below = [&](uint32_t end) { return static_cast<int32_t>(random() % end); };
  const model::StubModel model(
      {.n_vocab = kVocab, .n_context = kContextTokens, .eos = TokenId(256)});
  int64_t n_preempted = 0;
  int64_t n_hit = 0;
  for (const bool has_cache : {true, false}) {
    StartStub({.max_running = 6,
               .max_waiting = 1000,
               .n_prompt_rows = 50,
               .n_blocks = 24,
               .prefix_cache = has_cache,
               .n_windows = 4,
               .replay = Replay::kExact});
    std::vector<std::pair<Listener*, wire::GenerateRequest>> clients;
    for (uint64_t id = 1; id <= 400; ++id) {
      // A few families of prompts; behind them, or in front, a marker of its own.
      std::vector<TokenId> prompt(static_cast<size_t>(below(500)), TokenId(below(5)));
      prompt.insert(below(4) == 0 ? prompt.begin() : prompt.end(),
                    TokenId(static_cast<int32_t>(10 + id % 200)));
      wire::GenerateRequest request = Ask(id, std::move(prompt), 1 + below(60));
      // Some ask what the one before asked: forks.
      if (id > 1 && below(4) == 0) request.prompt = clients.back().second.prompt;
      clients.emplace_back(&Submit(request), request);
      if (below(6) == 0) engine->Cancel(RequestId(1 + static_cast<uint64_t>(below(400))));
      for (int i = below(20); i > 0; --i) engine->Step(At(0));
      DrainAll();
    }
    // Who finds no blocks rests for a moment.
    for (int millis = 1; !engine->idle() && millis < 10'000; ++millis) RunAt(At(millis));
    for (const auto& [client, request] : clients) {
      ASSERT_TRUE(client->ended());
      const std::vector<int32_t> tokens = TokensOf(*client);
      std::vector<int32_t> wanted = Wanted(model, request);
      if (client->end().finish == wire::FinishReason::kError) wanted.resize(tokens.size());
      ASSERT_EQ(tokens, wanted) << "request " << request.id.value << " seed " << seed;
    }
    n_preempted += engine->batch()->counts().n_preempted;
    n_hit += engine->batch()->counts().n_hit;
  }
  EXPECT_GT(n_preempted, 0);
  EXPECT_GT(n_hit, 0);
}

}  // namespace
}  // namespace sluice::engine
