#include "base/queue.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "base/ready_list.h"

namespace sluice {
namespace {

TEST(SpscRing, IsFullAtItsCapacityAndKeepsOrder) {
  SpscRing<std::unique_ptr<int>> ring(4);
  EXPECT_TRUE(ring.empty());
  for (int round = 0; round < 5; ++round) {  // past the end of the array
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(ring.free(), static_cast<size_t>(4 - i));
      auto item = std::make_unique<int>(i);
      ASSERT_TRUE(ring.TryPush(item));
      EXPECT_EQ(item, nullptr);
    }
    auto refused = std::make_unique<int>(9);
    EXPECT_FALSE(ring.TryPush(refused));
    EXPECT_EQ(*refused, 9);  // untouched
    for (int i = 0; i < 4; ++i) {
      std::unique_ptr<int> item;
      ASSERT_TRUE(ring.TryPop(item));
      EXPECT_EQ(*item, i);
    }
    std::unique_ptr<int> none;
    EXPECT_FALSE(ring.TryPop(none));
  }
}

// The payload is plain memory: the thread sanitizer reports it unless the ring orders its
// hand-over.
TEST(SpscRing, TwoThreadsHandOverEveryItemOnceInOrder) {
  constexpr int kItems = 20'000;
  SpscRing<std::array<int, 4>> ring(64);
  std::thread producer([&] {
    for (int i = 0; i < kItems;) {
      std::array<int, 4> item = {i, i + 1, i + 2, i + 3};
      if (ring.free() > 0) {
        SLUICE_CHECK(ring.TryPush(item));
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int expected = 0; expected < kItems;) {
    std::array<int, 4> item{};
    if (!ring.TryPop(item)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(item[0], expected);
    ASSERT_EQ(item[3], expected + 3);
    ++expected;
  }
  EXPECT_TRUE(ring.empty());
  producer.join();
}

TEST(ReadyList, ListsANodeOnceAndRingsOnlyWhenItWasEmpty) {
  int n_rings = 0;
  ReadyList list(Bell{.ring = [](void* n) { ++*static_cast<int*>(n); }, .context = &n_rings});
  ReadyList::Node a, b;
  list.Add(a);
  list.Add(b);
  list.Add(a);
  EXPECT_EQ(n_rings, 1);
  std::vector<ReadyList::Node*> taken;
  list.TakeAll([&](ReadyList::Node& node) { taken.push_back(&node); });
  EXPECT_EQ(taken.size(), 2u);
  list.TakeAll([&](ReadyList::Node&) { FAIL() << "taken twice"; });
  list.Add(b);
  EXPECT_EQ(n_rings, 2);
}

TEST(ReadyList, ANodeMayBeListedAgainFromItsVisit) {
  ReadyList list(Bell{});
  ReadyList::Node node;
  int n_visits = 0;
  list.Add(node);
  list.TakeAll([&](ReadyList::Node& n) {
    ++n_visits;
    list.Add(n);
  });
  EXPECT_EQ(n_visits, 1);  // its second turn is the next TakeAll's
  list.TakeAll([&](ReadyList::Node&) { ++n_visits; });
  EXPECT_EQ(n_visits, 2);
}

// What the event path does: producers put plain data in a ring and list its node; the owner sleeps
// until the bell and must then find everything. A lost wake-up shows as a hang, a missing order as
// a report of the thread sanitizer.
TEST(ReadyList, NoNewsIsLostBetweenAddAndTakeAll) {
  constexpr int kThings = 4, kEvents = 4'000;
  struct Thing : ReadyList::Node {
    SpscRing<std::array<int, 2>> ring{32};
    int n_seen = 0;
  };
  std::atomic<uint32_t> n_rings{0};
  ReadyList list(Bell{.ring =
                          [](void* context) {
                            auto& n = *static_cast<std::atomic<uint32_t>*>(context);
                            n.fetch_add(1);
                            n.notify_one();
                          },
                      .context = &n_rings});
  std::array<Thing, kThings> things;
  std::vector<std::thread> producers;
  for (int p = 0; p < 2; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEvents; ++i) {
        for (int t = p; t < kThings; t += 2) {
          std::array<int, 2> event = {i, -i};
          Thing& thing = things[static_cast<size_t>(t)];
          while (!thing.ring.TryPush(event)) std::this_thread::yield();
          list.Add(thing);
        }
      }
    });
  }
  for (int n_done = 0; n_done < kThings;) {
    const uint32_t n_rings_before = n_rings.load();
    bool found = false;
    list.TakeAll([&](ReadyList::Node& node) {
      found = true;
      Thing& thing = static_cast<Thing&>(node);
      for (std::array<int, 2> event; thing.ring.TryPop(event); ++thing.n_seen) {
        ASSERT_EQ(event[0], thing.n_seen);
        ASSERT_EQ(event[1], -thing.n_seen);
      }
      if (thing.n_seen == kEvents) ++n_done;
    });
    if (!found) n_rings.wait(n_rings_before);
  }
  for (std::thread& producer : producers) producer.join();
}

}  // namespace
}  // namespace sluice
