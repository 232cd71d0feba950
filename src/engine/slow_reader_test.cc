// Clients that do not read: whatever of theirs has begun holds up nobody else. Over a model that
// counts.

#include <gtest/gtest.h>

#include <vector>

#include "engine/engine_test_impl.h"

namespace sluice::engine {
namespace {

using wire::RequestClass;

// A pool of nine blocks: one sequence of full length and a bit.
class SlowReaderTest : public testing::Test, protected EngineInVirtualTime {
 protected:
  static constexpr int64_t kLongest = 1000;  // steps that anybody here may take

  SlowReaderTest() { Open(/*n_blocks=*/9); }
  void Open(int32_t n_blocks) {
    Engine::Params params = Defaults();
    params.max_running = 8;
    params.n_context = 512;
    params.n_prompt_rows = 512;
    params.n_blocks = n_blocks;
    Start(params);
  }
  Listener& Submit(RequestClass request_class, std::vector<TokenId> prompt, int32_t n_max) {
    wire::GenerateRequest request = Ask(++n_submitted, std::move(prompt), n_max);
    request.request_class = request_class;
    return EngineInVirtualTime::Submit(std::move(request));
  }
  static std::vector<TokenId> Same(int32_t token, size_t n) { return {n, TokenId(token)}; }

  // Everybody but `slow` reads.
  void Step(const Listener* slow) {
    engine->Step(At(now_ms++));
    for (Listener& client : listeners) {
      if (&client != slow) client.Drain();
    }
  }
  void Steps(int n, const Listener* slow) {
    for (int i = 0; i < n; ++i) Step(slow);
  }
  bool IsAnswered(const Listener& client, const Listener* slow) {
    for (int64_t i = 0; i < kLongest && !client.ended(); ++i) Step(slow);
    return client.ended();
  }
  // Its queue is full, its blocks are gone, and the engine has noticed only the latter: the event
  // that filled the queue was sent in the step before.
  Listener& SlowOneThatGaveWay() {
    Listener& first = Submit(RequestClass::kInteractive, Same(0, 1), 40);
    Listener& slow = Submit(RequestClass::kDefault, Prompt(200), 100);
    Steps(15, &slow);
    Listener& other = Submit(RequestClass::kInteractive, Same(60, 440), 1);
    EXPECT_TRUE(IsAnswered(other, &slow));
    EXPECT_EQ(engine->batch()->counts().n_preempted, 1);
    EXPECT_TRUE(IsAnswered(first, &slow));
    Steps(20, &slow);
    return slow;
  }

  uint64_t n_submitted = 0;
  int64_t now_ms = 0;
};

TEST_F(SlowReaderTest, WhoSharesItsPromptDoesNotWaitForIt) {
  Listener& slow = SlowOneThatGaveWay();
  std::vector<TokenId> prompt = Prompt(200);
  prompt.emplace_back(70);
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kDefault, prompt, 3), &slow));
  EXPECT_TRUE(IsAnswered(slow, nullptr)) << "it goes on when its client reads";
}

TEST_F(SlowReaderTest, ALargePromptOfItsClassFindsRoom) {
  Listener& slow = SlowOneThatGaveWay();
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kDefault, Same(3, 440), 3), &slow));
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kDefault, Same(4, 30), 3), &slow));
  EXPECT_TRUE(IsAnswered(slow, nullptr));
}

// It has waited so long that it is one of the highest class by then.
TEST_F(SlowReaderTest, OneThatWasRaisedHoldsUpNobodyEither) {
  Listener& slow = Submit(RequestClass::kDefault, Prompt(200), 100);
  Submit(RequestClass::kInteractive, Same(0, 1), 40);
  Steps(15, &slow);
  std::vector<Listener*> newest(2);
  for (int n = 0; now_ms < 11'000;) {
    for (Listener*& client : newest) {
      if (client != nullptr && !client->ended()) continue;
      client = &Submit(RequestClass::kInteractive, Same(40 + ++n % 30, 440), 9);
    }
    Step(&slow);
  }
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kInteractive, Same(90, 440), 3), &slow));
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kInteractive, Same(91, 30), 3), &slow));
  EXPECT_TRUE(IsAnswered(slow, nullptr));
}

// What it would still need is nobody's while its client does not read.
TEST_F(SlowReaderTest, WhatItHasStillToComeIsNotSpokenFor) {
  for (size_t n_prompt = 112; n_prompt <= 116; ++n_prompt) {
    steps.clear();
    now_ms = 0;
    Open(/*n_blocks=*/8);
    Listener& slow = Submit(RequestClass::kInteractive, Same(1, n_prompt), 40);
    Steps(60, &slow);
    ASSERT_FALSE(slow.ended());
    EXPECT_TRUE(IsAnswered(Submit(RequestClass::kInteractive, Same(3, 500), 1), &slow)) << n_prompt;
    EXPECT_TRUE(IsAnswered(slow, nullptr));
  }
}

TEST_F(SlowReaderTest, AScoredPromptThatNobodyReadsGivesWay) {
  wire::GenerateRequest request = Ask(++n_submitted, Same(1, 480), 1);
  request.sampling.n_prompt_logprobs = 0;
  request.request_class = RequestClass::kInteractive;
  Engine::Params params = Defaults();
  params.max_running = 8;
  params.n_context = 512;
  params.n_prompt_rows = 8;
  params.n_blocks = 9;
  Start(params);
  Listener& slow = EngineInVirtualTime::Submit(std::move(request));
  Steps(60, &slow);
  ASSERT_FALSE(slow.ended());
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kInteractive, Same(3, 430), 1), &slow));
  EXPECT_TRUE(IsAnswered(Submit(RequestClass::kInteractive, Same(4, 20), 1), &slow));
  EXPECT_TRUE(IsAnswered(slow, nullptr));
}

}  // namespace
}  // namespace sluice::engine
