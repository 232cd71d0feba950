#include "wire/event_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "wire/doorbell_test_impl.h"

namespace sluice::wire {
namespace {

TokenEvent Event(int32_t first_index) {
  TokenEvent event;
  event.first_index = first_index;
  event.tokens.push_back(TokenId(first_index));
  return event;
}

TokenEvent Terminal(int32_t first_index) {
  TokenEvent event;
  event.first_index = first_index;
  event.end = std::make_unique<EventEnd>();
  return event;
}

void Count(void* counter) { ++*static_cast<int*>(counter); }

class EventQueueTest : public testing::Test {
 protected:
  EventQueueTest() { queue.set_room_bell({.ring = &Count, .context = &n_rooms}); }

  void Fill() {
    for (uint32_t i = 0; i < kQueuedEvents; ++i) {
      TokenEvent event = Event(static_cast<int32_t>(i));
      ASSERT_TRUE(queue.TryPush(event));
    }
  }
  int32_t NListed() {
    int32_t n = 0;
    ready.TakeAll([&](ReadyList::Node&) { ++n; });
    return n;
  }

  int n_wakes = 0;
  int n_rooms = 0;
  ReadyList ready{{.ring = &Count, .context = &n_wakes}};
  ReadyList::Node node;
  EventQueue queue{ready, node};
};

TEST_F(EventQueueTest, KeepsTheOrderOfPushes) {
  for (int32_t i = 0; i < 5; ++i) {
    TokenEvent event = Event(i);
    ASSERT_TRUE(queue.TryPush(event));
  }
  TokenEvent event;
  for (int32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(queue.TryPop(event));
    EXPECT_EQ(event.first_index, i);
  }
  EXPECT_FALSE(queue.TryPop(event));
}

TEST_F(EventQueueTest, ABurstCostsOneListingAndOneWake) {
  Fill();
  EXPECT_EQ(n_wakes, 1);
  EXPECT_EQ(NListed(), 1);
}

// Nobody reads a whole answer before its end, but when its first token came is wanted in time.
TEST_F(EventQueueTest, ToldOfHalvesOnlyItStillTellsOfTheFirstToken) {
  EventQueue lazy{ready, node, EventQueue::Tell::kHalfFull};
  TokenEvent event = Event(0);
  ASSERT_TRUE(lazy.TryPush(event));
  EXPECT_EQ(NListed(), 1);
  for (int32_t i = 1; i <= 7; ++i) {
    event = Event(i);
    ASSERT_TRUE(lazy.TryPush(event));
    EXPECT_EQ(NListed(), 0) << i;
  }
  event = Event(8);
  ASSERT_TRUE(lazy.TryPush(event));
  EXPECT_EQ(NListed(), 1);
}

TEST_F(EventQueueTest, OfAPromptTheLatestIsToldToWhomItWasPromisedAlone) {
  queue.NotePrompt({.n_done = 3, .n_cached = 1});
  EXPECT_EQ(NListed(), 0);
  EXPECT_EQ(queue.prompt(), (PromptProgress{.n_done = 3, .n_cached = 1}));
  EventQueue told(ready, node, EventQueue::Tell::kPromptToo);
  told.NotePrompt({.n_done = 4});
  told.NotePrompt({.n_done = 5});
  EXPECT_EQ(NListed(), 1);
  EXPECT_EQ(told.prompt().n_done, 5);
  for (int32_t i = 0; i < static_cast<int32_t>(kQueuedEvents); ++i) {
    TokenEvent event = Event(i);
    ASSERT_TRUE(told.TryPush(event)) << "it took no room";
    EXPECT_EQ(NListed(), 1) << "each event is told";
  }
}

TEST_F(EventQueueTest, RefusesAnEventWithoutTouchingItWhenFull) {
  Fill();
  TokenEvent event = Event(99);
  EXPECT_FALSE(queue.TryPush(event));
  EXPECT_FALSE(queue.HasRoom());
  ASSERT_EQ(event.tokens.size(), 1u);
  EXPECT_EQ(event.tokens[0], TokenId(99));
}

TEST_F(EventQueueTest, TheTerminalEventFitsAlsoWhenFull) {
  Fill();
  TokenEvent refused = Event(99);
  ASSERT_FALSE(queue.TryPush(refused));
  TokenEvent last = Terminal(kQueuedEvents);
  ASSERT_TRUE(queue.TryPush(last));
  TokenEvent event;
  for (uint32_t i = 0; i < kQueuedEvents; ++i) {
    ASSERT_TRUE(queue.TryPop(event));
    ASSERT_EQ(event.end, nullptr);
  }
  ASSERT_TRUE(queue.TryPop(event));
  EXPECT_NE(event.end, nullptr);
}

TEST_F(EventQueueTest, TheRoomBellRingsOnceAfterARefusalAndNotBefore) {
  Fill();
  TokenEvent event;
  ASSERT_TRUE(queue.TryPop(event));
  queue.Drained();
  EXPECT_EQ(n_rooms, 0) << "nobody was refused";

  TokenEvent next = Event(kQueuedEvents);
  ASSERT_TRUE(queue.TryPush(next));
  next = Event(17);
  ASSERT_FALSE(queue.TryPush(next));
  ASSERT_TRUE(queue.TryPop(event));
  EXPECT_EQ(n_rooms, 0) << "the consumer has not said that it is done";
  queue.Drained();
  EXPECT_EQ(n_rooms, 0) << "a place is not worth waking anybody";
  for (uint32_t i = 0; i < kQueuedEvents / 2; ++i) ASSERT_TRUE(queue.TryPop(event));
  queue.Drained();
  EXPECT_EQ(n_rooms, 1);
  queue.Drained();
  EXPECT_EQ(n_rooms, 1);
  EXPECT_TRUE(queue.TryPush(next));
}

TEST_F(EventQueueTest, APopAfterTheEndListsNothing) {
  TokenEvent last = Terminal(0);
  ASSERT_TRUE(queue.TryPush(last));
  EXPECT_EQ(NListed(), 1);
  TokenEvent event;
  ASSERT_TRUE(queue.TryPop(event));
  EXPECT_FALSE(queue.TryPop(event));
  EXPECT_EQ(NListed(), 0);
}

// One stream between two threads. The consumer frees queue and node as soon as the contract allows
// it, which is what the address and thread sanitizers look at.
struct Consumer {
  struct Stream : ReadyList::Node {
    std::unique_ptr<EventQueue> queue;
    int32_t n_events = 0;
  };

  void Visit(ReadyList::Node& node) {
    Stream& its = static_cast<Stream&>(node);
    ASSERT_EQ(&its, stream.get());
    TokenEvent event;
    while (its.queue != nullptr && its.queue->TryPop(event)) {
      ASSERT_EQ(event.first_index, its.n_events);
      if (event.end != nullptr) {
        its.queue.reset();
      } else {
        ++its.n_events;
      }
    }
    if (its.queue != nullptr) {
      its.queue->Drained();
    } else if (!its.listed.load()) {
      n_events = its.n_events;
      stream.reset();
    }
  }

  Doorbell news;
  ReadyList ready{news.bell()};
  std::unique_ptr<Stream> stream;
  int32_t n_events = 0;
};

TEST(EventQueueStress, AStreamEndsCompletelyHoweverTheThreadsInterleave) {
  constexpr int kStreams = 100;
  constexpr int32_t kEvents = 40;  // more than fit, so that both sides wait for each other
  std::atomic<EventQueue*> offered{nullptr};
  Doorbell offer;
  Doorbell room;

  std::thread service([&] {
    for (int i = 0; i < kStreams; ++i) {
      offer.Wait();
      EventQueue& queue = *offered.load();
      for (int32_t n = 0; n < kEvents; ++n) {
        TokenEvent event = Event(n);
        while (!queue.TryPush(event)) room.Wait();
      }
      TokenEvent last = Terminal(kEvents);
      ASSERT_TRUE(queue.TryPush(last));
    }
  });

  Consumer consumer;
  for (int i = 0; i < kStreams; ++i) {
    consumer.stream = std::make_unique<Consumer::Stream>();
    consumer.stream->queue = std::make_unique<EventQueue>(consumer.ready, *consumer.stream);
    consumer.stream->queue->set_room_bell(room.bell());
    offered.store(consumer.stream->queue.get());
    offer.Ring();
    while (consumer.stream != nullptr) {
      consumer.news.Wait();
      consumer.ready.TakeAll([&](ReadyList::Node& node) { consumer.Visit(node); });
    }
    ASSERT_EQ(consumer.n_events, kEvents);
  }
  service.join();
}

}  // namespace
}  // namespace sluice::wire
