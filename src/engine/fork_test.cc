// A sequence that gave way and one whose prompt is all that it knows by then: no copies, whatever
// they have in common. Real rows of the tiny golden models, with exact replay.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_test_impl.h"
#include "engine/tiny_models_test_impl.h"

namespace sluice::engine {
namespace {

// The engine steps; everybody but `slow` reads. A pool of one sequence of full length.
class Fork : public testing::TestWithParam<TinyModel>, protected EngineInVirtualTime {
 protected:
  void SetUp() override {
    engine = std::make_unique<Engine>(Engine::Params{.max_running = 4,
                                                     .max_waiting = 4,
                                                     .n_context = 320,
                                                     .n_prompt_rows = 3,
                                                     .n_blocks = 5,
                                                     .replay = Replay::kExact,
                                                     .checks_invariants = true},
                                      Load(GetParam()));
  }
  Listener& SubmitOf(uint64_t id, std::vector<TokenId> prompt, int32_t n) {
    wire::GenerateRequest request = Ask(id, std::move(prompt), n);
    request.sampling.n_min = n;
    return Submit(std::move(request));
  }
  void Steps(int n, const Listener* slow) {
    for (int i = 0; i < n; ++i) {
      engine->Step(At(now_ms++));
      for (Listener& client : listeners) {
        if (&client != slow) client.Drain();
      }
    }
  }
  bool IsAnswered(const Listener& client, const Listener* slow) {
    for (int i = 0; i < 2'000 && !client.ended(); ++i) Steps(1, slow);
    return client.ended();
  }

  int64_t now_ms = 0;
};

TEST_P(Fork, WhoComesBackIsNoCopyOfAPromptThatIsAllItKnows) {
  constexpr int32_t kAnswer = 40;
  std::vector<TokenId> known = SomeTokens(GetParam(), 100, 7);
  Listener& alone = SubmitOf(1, known, kAnswer);
  ASSERT_TRUE(IsAnswered(alone, nullptr));
  const std::vector<int32_t> wanted = TokensOf(alone);
  ASSERT_EQ(std::ssize(wanted), kAnswer);
  SetUp();

  Listener& slow = SubmitOf(2, known, kAnswer);
  Steps(100, &slow);
  ASSERT_TRUE(IsAnswered(SubmitOf(3, SomeTokens(GetParam(), 310, 9), 1), &slow));
  ASSERT_EQ(engine->batch()->counts().n_preempted, 1);
  for (size_t i = 0; i < wire::kQueuedEvents; ++i) known.emplace_back(wanted[i]);
  Listener& other = SubmitOf(4, known, 1);
  Steps(4, &slow);
  ASSERT_FALSE(other.ended());
  ASSERT_TRUE(IsAnswered(slow, nullptr));
  EXPECT_EQ(TokensOf(slow), wanted);
  EXPECT_EQ(engine->batch()->counts().n_forked, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Fork, testing::ValuesIn(TinyModels()), [](const auto& tiny) {
  return tiny.param.name;
});

}  // namespace
}  // namespace sluice::engine
