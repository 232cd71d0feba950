// The router between threads: for the thread sanitizer above all.

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/random_test_impl.h"
#include "cluster/requests_test_impl.h"
#include "cluster/router.h"
#include "env/sim/sim_clock.h"
#include "wire/doorbell_test_impl.h"
#include "wire/scripted_service.h"
#include "wire/scripted_service_test_impl.h"

namespace sluice::cluster {
namespace {

// One thread steps service and router, several submit and read, one cancels at random. At the end,
// or in the middle, all is shut.
class Storm {
 public:
  static constexpr int kClients = 3;
  static constexpr uint64_t kRequests = 600;  // of each client

  struct Counts {
    int64_t n_accepted = 0;
    int64_t n_refused = 0;
    int64_t n_ended = 0;
    int64_t n_ended_twice = 0;
  };

  explicit Storm(bool is_cut_short) : is_cut_short_(is_cut_short) {}

  Counts Run() {
    for (int i = 0; i < kClients; ++i) clients_.emplace_back(*this, static_cast<uint64_t>(i));
    std::vector<std::thread> threads;
    threads.emplace_back([this] { Own(); });
    threads.emplace_back([this] { CancelAtRandom(); });
    for (Client& client : clients_) threads.emplace_back([&client] { client.Run(); });
    for (size_t i = threads.size(); i-- > 0;) {
      threads[i].join();
      if (i == 2) {  // all clients are done
        done_.store(true);
        work_.Ring();
      }
    }
    Counts sum;
    for (const Client& client : clients_) {
      sum.n_accepted += client.counts.n_accepted;
      sum.n_refused += client.counts.n_refused;
      sum.n_ended += client.counts.n_ended;
      sum.n_ended_twice += client.counts.n_ended_twice;
    }
    EXPECT_EQ(router_.Load().n_waiting + router_.Load().n_running, 0);
    return sum;
  }

 private:
  struct Client {
    Client(Storm& its_storm, uint64_t its_index) : storm(its_storm), index(its_index) {}

    void Run() {
      for (uint64_t n = 0; n < kRequests; ++n) {
        wire::GenerateRequest request = storm.Make(index + kClients * n);
        wire::Listener& listener = listeners.emplace_back(ready);
        storm.newest_.store(request.id.value);
        if (storm.router_.Submit(std::move(request), listener.queue).ok()) {
          ++counts.n_accepted;
        } else {
          ++counts.n_refused;
          listeners.pop_back();
        }
        if (n % 8 == 0) Read();
      }
      while (counts.n_ended < counts.n_accepted) {
        news.Wait();
        Read();
      }
    }
    void Read() {
      ready.TakeAll([](ReadyList::Node&) {});
      for (wire::Listener& listener : listeners) {
        if (listener.ended()) {
          wire::TokenEvent more;
          if (listener.queue.TryPop(more)) ++counts.n_ended_twice;
          continue;
        }
        listener.Drain();
        if (listener.ended()) ++counts.n_ended;
      }
    }

    Storm& storm;
    const uint64_t index;
    wire::Doorbell news;
    ReadyList ready{news.bell()};
    std::deque<wire::Listener> listeners;
    Counts counts;
  };

  wire::GenerateRequest Make(uint64_t n) {
    const uint64_t bits = RandomBits({.seed = seed_, .position = n});
    AskParams params{.id = n + 1,
                     .key = bits % 5,
                     .request_class = static_cast<wire::RequestClass>(bits / 8 % 3),
                     .n_prompt = 1 + bits / 64 % 40,
                     .n_max = 100};
    // Some are late while they wait, some while they run, most never.
    if (bits / 4096 % 4 == 0) {
      params.deadline =
          clock_.Now() + Duration::Micros(static_cast<int64_t>(bits / 16'384 % 3'000));
    }
    wire::ScriptPlay play = wire::Say("the quick brown fox");
    play.pace = Duration::Micros(static_cast<int64_t>(bits / 65'536 % 200));
    wire::GenerateRequest request = Ask(params);
    request.script = std::make_unique<const wire::ScriptPlay>(std::move(play));
    return request;
  }

  void Own() {
    bool is_shut = false;
    while (!done_.load() || !service_.idle()) {
      clock_.Advance(Duration::Micros(100));
      service_.Step(clock_.Now());
      router_.Step(clock_.Now());
      if (is_cut_short_ && !is_shut && newest_.load() > kClients * kRequests / 4) {
        is_shut = true;
        router_.CancelAll();
        service_.CancelAll();
      }
      if (service_.idle() && router_.Load().n_waiting == 0 && !done_.load()) work_.Wait();
    }
  }

  void CancelAtRandom() {
    for (uint64_t n = 0; !done_.load(); ++n) {
      const uint64_t bits = RandomBits({.seed = seed_, .position = n, .stream = 1});
      router_.Cancel(RequestId(1 + bits % (newest_.load() + 8)));
      static_cast<void>(router_.Load());
    }
  }

  Random random_;
  const uint64_t seed_ = random_.Below(1 << 30);
  const bool is_cut_short_;
  SimClock clock_;
  wire::Doorbell work_;
  std::deque<Client> clients_;
  wire::ScriptedService service_{{.max_running = 8, .max_waiting = 0, .bell = work_.bell()}};
  Router router_{{.queue = {.n_requests_max = 64, .n_tokens_max = 1'500}, .bell = work_.bell()},
                 clock_,
                 service_};
  std::atomic<uint64_t> newest_{0};
  std::atomic<bool> done_{false};
};

TEST(RouterStorm, EachAcceptedRequestEndsExactlyOnce) {
  const Storm::Counts counts = Storm(/*is_cut_short=*/false).Run();
  EXPECT_EQ(counts.n_ended, counts.n_accepted);
  EXPECT_EQ(counts.n_ended_twice, 0);
  EXPECT_GT(counts.n_accepted, 0);
  EXPECT_EQ(counts.n_accepted + counts.n_refused,
            Storm::kClients * static_cast<int64_t>(Storm::kRequests));
}

TEST(RouterStorm, AlsoWhenAllIsShutInTheMiddle) {
  const Storm::Counts counts = Storm(/*is_cut_short=*/true).Run();
  EXPECT_EQ(counts.n_ended, counts.n_accepted);
  EXPECT_EQ(counts.n_ended_twice, 0);
  EXPECT_GT(counts.n_refused, 0);
}

}  // namespace
}  // namespace sluice::cluster
