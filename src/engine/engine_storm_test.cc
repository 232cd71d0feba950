// The engine between threads: for the thread sanitizer above all.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "engine/engine_test_impl.h"
#include "wire/doorbell_test_impl.h"

namespace sluice::engine {
namespace {

// One thread steps, one submits and reads, one cancels at random.
class Storm {
 public:
  static constexpr uint64_t kRequests = 400;
  static constexpr uint64_t kLag = 12;  // fewer than there are seats, so the needed cancels come

  explicit Storm(uint64_t seed) : random_(seed) {}

  void Run() {
    std::thread owner([this] {
      for (int64_t now_ns = 0; !done_.load(); now_ns += 100'000) {
        engine_.Step(Time{now_ns});
        if (engine_.idle()) work_.Wait();
      }
    });
    std::thread canceller([this, seed = random_()] {
      std::mt19937_64 random(seed);
      for (uint64_t id = 1; id <= kRequests; ++id) {
        for (uint64_t n = 0; (n = n_submitted_.load()) < id;) n_submitted_.wait(n);
        if (random() % 3 == 0) engine_.Cancel(RequestId(id - std::min(id - 1, random() % kLag)));
        static_cast<void>(engine_.Load());
      }
    });
    Consume();
    canceller.join();
    done_.store(true);
    work_.Ring();
    owner.join();
  }

  std::set<ErrorCode> seen;
  uint64_t n_ended = 0;
  uint64_t n_wrong = 0;  // answers that do not count on from their prompts

 private:
  struct Stream : ReadyList::Node {
    Stream(ReadyList& ready, int32_t first_token) : queue(ready, *this), next(first_token) {}
    wire::EventQueue queue;
    int32_t next;
    bool ended = false;
  };

  void Consume() {
    uint64_t next_id = 1;
    while (n_ended < kRequests) {
      for (; next_id <= kRequests; ++next_id) {
        const auto token = static_cast<int32_t>(1 + random_() % 20);
        Stream& stream = streams_.emplace_back(ready_, token + 1);
        wire::GenerateRequest request =
            Ask(next_id, std::vector<TokenId>(1 + random_() % 30, TokenId(token)),
                static_cast<int32_t>(1 + random_() % 40));
        if (!engine_.Submit(std::move(request), stream.queue).ok()) {  // full
          streams_.pop_back();
          break;
        }
        n_submitted_.store(next_id);
        n_submitted_.notify_one();
      }
      news_.Wait();
      ready_.TakeAll([this](ReadyList::Node& node) { Read(static_cast<Stream&>(node)); });
    }
  }

  void Read(Stream& stream) {
    wire::TokenEvent event;
    while (!stream.ended && stream.queue.TryPop(event)) {
      for (TokenId token : event.tokens) n_wrong += token.value == stream.next++ ? 0 : 1;
      if (event.end == nullptr) continue;
      stream.ended = true;
      seen.insert(event.end->status.code());
      ++n_ended;
    }
    if (!stream.ended) stream.queue.Drained();
  }

  std::mt19937_64 random_;
  wire::Doorbell news_;  // for the consumer
  wire::Doorbell work_;  // for the engine
  ReadyList ready_{news_.bell()};
  Engine engine_{{.max_running = 8,
                  .max_waiting = 8,
                  .n_context = CountingModel::kContext,
                  .n_prompt_rows = 16,
                  .bell = work_.bell()},
                 {.checkpoint = nullptr, .model = std::make_unique<CountingModel>()}};
  std::deque<Stream> streams_;
  std::atomic<uint64_t> n_submitted_{0};
  std::atomic<bool> done_{false};
};

TEST(EngineStorm, EachRequestEndsExactlyOnceWithItsOwnTokensUnderRandomCancels) {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  Storm storm(static_cast<uint64_t>(seed));
  storm.Run();
  EXPECT_EQ(storm.n_ended, Storm::kRequests);
  EXPECT_EQ(storm.n_wrong, 0u);
  EXPECT_TRUE(storm.seen.contains(ErrorCode::kOk));
  EXPECT_TRUE(storm.seen.contains(ErrorCode::kCancelled));
}

TEST(EngineStorm, AfterAThousandCancelsEverySlotIsFree) {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  EngineInVirtualTime run;
  run.Start({.max_running = 4,
             .max_waiting = 4,
             .n_context = CountingModel::kContext,
             .n_prompt_rows = 3});
  uint64_t id = 0;
  while (id < 1'000) {
    for (auto n = random() % 8; n > 0; --n) {
      Listener& client = run.listeners.emplace_back(run.ready);
      const Status status = run.engine->Submit(
          Ask(++id, std::vector<TokenId>(1 + random() % 9, TokenId(1)), 40), client.queue);
      if (!status.ok()) run.listeners.pop_back();
    }
    for (auto n = random() % 3; n > 0; --n) run.engine->Step(At(0));
    for (uint64_t old = id > 12 ? id - 12 : 1; old <= id; ++old) {
      if (random() % 2 == 0) run.engine->Cancel(RequestId(old));
    }
  }
  for (uint64_t old = 1; old <= id; ++old) run.engine->Cancel(RequestId(old));
  run.engine->Step(At(0));
  EXPECT_TRUE(run.engine->idle());
  run.DrainAll();
  for (const Listener& client : run.listeners) EXPECT_TRUE(client.ended());

  run.listeners.clear();
  for (int i = 0; i < 4; ++i) run.Submit(Ask(++id, TokenId(50), 3));
  run.steps.clear();
  run.RunAt(At(0));
  EXPECT_EQ(run.steps.front().size(), 1u) << "their prompt runs once";
  EXPECT_EQ(run.steps[1].size(), 4u) << "all four run at once";
  for (const Listener& client : run.listeners) EXPECT_EQ(TokensOf(client), Counting(51, 3));
}

}  // namespace
}  // namespace sluice::engine
