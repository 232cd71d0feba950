// ScriptedService between many threads: for the thread sanitizer above all.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "wire/doorbell_test_impl.h"
#include "wire/scripted_service.h"
#include "wire/scripted_service_test_impl.h"

namespace sluice::wire {
namespace {

// Many threads: one owner steps, one submits and consumes, one cancels at random.
class Storm {
 public:
  static constexpr uint64_t kRequests = 1'000;
  static constexpr uint64_t kLag = 40;  // fewer than there are seats, so the needed cancels come

  explicit Storm(uint64_t seed) : random_(seed) {}

  void Run() {
    std::thread owner([this] {
      for (int64_t now_ns = 0; !done_.load(); now_ns += 100'000) {
        now_ns_.store(now_ns);
        service_.Step(Time{now_ns});
        if (service_.idle()) work_.Wait();
      }
    });
    std::thread canceller([this, seed = random_()] {
      std::mt19937_64 random(seed);
      for (uint64_t id = 1; id <= kRequests + kLag; ++id) {
        uint64_t newest = std::min(id, kRequests + 1) - 1;
        for (uint64_t n = 0; (n = n_submitted_.load()) < newest;) n_submitted_.wait(n);
        // The newest before, during or after its Submit; an old one that may have ended.
        for (uint64_t times = random() % 4; times > 1; --times) service_.Cancel(RequestId(id));
        if (id <= kLag) continue;
        if (NeedsCancel(id - kLag) || random() % 4 == 0) service_.Cancel(RequestId(id - kLag));
      }
    });
    Consume();
    done_.store(true);
    work_.Ring();
    owner.join();
    canceller.join();
  }

  uint64_t n_terminals = 0;
  uint64_t n_wrong = 0;  // streams whose tokens were not a prefix of their script
  std::set<ErrorCode> seen;

 private:
  static constexpr std::string_view kText = "the quick brown fox jumps over the lazy dog";

  struct Stream : ReadyList::Node {
    explicit Stream(ReadyList& ready) : queue(std::make_unique<EventQueue>(ready, *this)) {}
    std::unique_ptr<EventQueue> queue;
    std::string text;
  };

  // These hang without a deadline: only a cancel ends them.
  static bool NeedsCancel(uint64_t id) { return id % 8 == 0; }

  GenerateRequest Make(uint64_t id) {
    ScriptPlay play = Say(kText);
    play.n_per_event = static_cast<int32_t>(1 + random_() % 3);
    if (random_() % 2 == 0) play.pace = Duration::Micros(static_cast<int64_t>(random_() % 2'000));
    if (random_() % 4 == 0) {
      play.fault = static_cast<ScriptPlay::Fault>(1 + random_() % 2);  // fail, sick
      play.fault_after = static_cast<int32_t>(random_() % 60);
    }
    if (NeedsCancel(id)) play.fault = ScriptPlay::Fault::kHang;
    GenerateRequest request = Ask(id, std::move(play));
    request.n_max = static_cast<int32_t>(44 + random_() % 20);
    if (id % 8 == 1) {
      int64_t patience_ns = static_cast<int64_t>(random_() % 50'000'000);
      request.deadline = Time{now_ns_.load() + patience_ns};
    }
    return request;
  }

  void Consume() {
    uint64_t next_id = 1;
    while (n_terminals < kRequests) {
      for (; next_id <= kRequests; ++next_id) {
        auto stream = std::make_unique<Stream>(ready_);
        Stream* its = stream.get();
        if (!service_.Submit(Make(next_id), *its->queue).ok()) break;  // full
        streams_.emplace(its, std::move(stream));
        n_submitted_.store(next_id);
        n_submitted_.notify_one();
      }
      news_.Wait();
      ready_.TakeAll([this](ReadyList::Node& node) { Visit(static_cast<Stream&>(node)); });
    }
  }

  void Visit(Stream& stream) {
    TokenEvent event;
    bool lazy = random_() % 4 == 0;  // reads one event only
    while (stream.queue != nullptr && stream.queue->TryPop(event)) {
      for (TokenId token : event.tokens) stream.text += static_cast<char>(token.value);
      if (event.end != nullptr) {
        ++n_terminals;
        seen.insert(event.end->status.code());
        if (!kText.starts_with(stream.text)) ++n_wrong;
        stream.queue.reset();
      } else if (lazy) {
        ready_.Add(stream);
        break;
      }
    }
    if (stream.queue != nullptr) {
      stream.queue->Drained();
    } else if (!stream.listed.load()) {
      streams_.erase(&stream);
    }
  }

  std::mt19937_64 random_;
  Doorbell news_;  // for the consumer
  Doorbell work_;  // for the owner of the service
  ReadyList ready_{news_.bell()};
  ScriptedService service_{{.max_running = 32, .max_waiting = 16, .bell = work_.bell()}};
  std::map<Stream*, std::unique_ptr<Stream>> streams_;
  std::atomic<uint64_t> n_submitted_{0};
  std::atomic<int64_t> now_ns_{0};
  std::atomic<bool> done_{false};
};

TEST(ScriptedServiceStorm, EachOfAThousandRequestsEndsExactlyOnceUnderRandomCancels) {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  Storm storm(static_cast<uint64_t>(seed));
  storm.Run();
  EXPECT_EQ(storm.n_terminals, Storm::kRequests);
  EXPECT_EQ(storm.n_wrong, 0u);
  EXPECT_TRUE(storm.seen.contains(ErrorCode::kOk));
  EXPECT_TRUE(storm.seen.contains(ErrorCode::kCancelled));
}

TEST(ScriptedServiceStorm, SubmitsThatRaceWithTheShutdownAreRefusedOrEnded) {
  for (int round = 0; round < 50; ++round) {
    ScriptedService service({.max_running = 8, .max_waiting = 8, .bell = {}});
    ReadyList ready{Bell{}};
    std::deque<Listener> listeners;
    std::vector<Listener*> accepted;
    Doorbell submitting;
    std::thread submitter([&] {
      for (uint64_t id = 1; id <= 16; ++id) {
        Listener& listener = listeners.emplace_back(ready);
        if (service.Submit(Ask(id, Say("abc")), listener.queue).ok()) accepted.push_back(&listener);
        submitting.Ring();
      }
    });
    submitting.Wait();
    service.Step(At(0));
    service.CancelAll();
    submitter.join();
    while (!service.idle()) service.Step(At(1));
    for (Listener* listener : accepted) {
      listener->Drain();
      EXPECT_TRUE(listener->ended());
    }
  }
}

}  // namespace
}  // namespace sluice::wire
