#include "codec/turn_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "codec/turn_recorder.h"

namespace sluice::codec {
namespace {

const KeyId kAnn(1);
const KeyId kBob(2);
const TokenId kFirst(7);
const TokenId kEnd(1);

TurnPlace Place(KeyId key, int prefix = 0) {
  TurnPlace place = {.key = key};
  place.prefix[0] = static_cast<std::byte>(prefix);
  place.prefix[1] = static_cast<std::byte>(prefix >> 8);
  return place;
}

Message Turn(std::string text, std::optional<std::string> reasoning = std::nullopt) {
  Message turn;
  turn.text = std::move(text);
  turn.reasoning = std::move(reasoning);
  return turn;
}

std::vector<TokenId> Ids(int n, int value = 42) {
  std::vector<TokenId> ids(static_cast<size_t>(n), TokenId(value));
  ids.front() = kFirst;
  return ids;
}

TEST(TurnMemory, FindsATurnForItsKeyAtItsPlaceAndNowhereElse) {
  TurnMemory memory(kMiB);
  memory.Keep(Place(kAnn, 3), Turn("hi", "so"), Ids(5));
  EXPECT_EQ(memory.Find(Place(kAnn, 3), Turn("hi", "so"), kFirst), Ids(5));
  EXPECT_FALSE(memory.Find(Place(kBob, 3), Turn("hi", "so"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 4), Turn("hi", "so"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 3), Turn("ho", "so"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 3), Turn("hi", "so"), TokenId(8)));
}

TEST(TurnMemory, ReasoningMayBeMissingButNotBeAnother) {
  TurnMemory memory(kMiB);
  memory.Keep(Place(kAnn), Turn("hi", "so"), Ids(5));
  EXPECT_TRUE(memory.Find(Place(kAnn), Turn("hi"), kFirst));
  EXPECT_TRUE(memory.Find(Place(kAnn), Turn("hi", ""), kFirst));
  EXPECT_TRUE(memory.Find(Place(kAnn), Turn("hi", "so\n"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn), Turn("hi", "no"), kFirst));
  memory.Keep(Place(kAnn, 1), Turn("hi"), Ids(5));
  EXPECT_TRUE(memory.Find(Place(kAnn, 1), Turn("hi"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 1), Turn("hi", "so"), kFirst));
}

TEST(TurnMemory, OfTwoThatLookTheSameTheNewestStays) {
  TurnMemory memory(kMiB);
  memory.Keep(Place(kAnn), Turn("hi", "so"), Ids(50));
  const int64_t n_bytes = memory.n_bytes();
  memory.Keep(Place(kAnn), Turn("hi", "or so"), Ids(50, 43));
  EXPECT_EQ(memory.n_bytes(), n_bytes);
  EXPECT_EQ(memory.Find(Place(kAnn), Turn("hi"), kFirst), Ids(50, 43));
}

TEST(TurnMemory, TheLeastRecentlyUsedMakesRoom) {
  TurnMemory memory(20 * kKiB);  // four turns of a thousand tokens
  for (int i = 0; i < 4; ++i) memory.Keep(Place(kAnn, i), Turn("hi"), Ids(1000));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(memory.Find(Place(kAnn, i), Turn("hi"), kFirst)) << i;
  EXPECT_TRUE(memory.Find(Place(kAnn, 0), Turn("hi"), kFirst));
  memory.Keep(Place(kAnn, 4), Turn("hi"), Ids(1000));
  EXPECT_LE(memory.n_bytes(), 20 * kKiB);
  EXPECT_TRUE(memory.Find(Place(kAnn, 0), Turn("hi"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 1), Turn("hi"), kFirst));
  EXPECT_TRUE(memory.Find(Place(kAnn, 2), Turn("hi"), kFirst));
  EXPECT_TRUE(memory.Find(Place(kAnn, 4), Turn("hi"), kFirst));
}

TEST(TurnMemory, ABusyKeyMakesRoomAtItsOwnCost) {
  TurnMemory memory(64 * kKiB);
  memory.Keep(Place(kBob), Turn("hi"), Ids(1000));
  for (int i = 0; i < 300; ++i) {
    memory.Keep(Place(kAnn, i), Turn("hi"), Ids(1000));
    EXPECT_LE(memory.n_bytes(), 64 * kKiB);
  }
  EXPECT_TRUE(memory.Find(Place(kBob), Turn("hi"), kFirst));
  EXPECT_TRUE(memory.Find(Place(kAnn, 299), Turn("hi"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 0), Turn("hi"), kFirst));
}

TEST(TurnMemory, NothingLongerThanAllOfItIsKept) {
  TurnMemory memory(kKiB);
  memory.Keep(Place(kAnn), Turn("hi"), Ids(100));
  memory.Keep(Place(kAnn, 1), Turn("hi"), Ids(1000));
  EXPECT_TRUE(memory.Find(Place(kAnn), Turn("hi"), kFirst));
  EXPECT_FALSE(memory.Find(Place(kAnn, 1), Turn("hi"), kFirst));
}

// For the thread sanitizer, and for the bytes: prompts look up on some threads while another keeps.
TEST(TurnMemory, ThreadsFindWholeTurnsOrNone) {
  constexpr int kRounds = 3000;
  TurnMemory memory(16 * kKiB);
  std::atomic<bool> is_done{false};
  std::atomic<int64_t> n_found{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&memory, &is_done, &n_found, t] {
      const KeyId key = t == 0 ? kAnn : kBob;
      for (int i = 0; !is_done.load(); ++i) {
        const auto ids = memory.Find(Place(key, i % 16), Turn("hi"), kFirst);
        if (!ids) continue;
        EXPECT_EQ(*ids, Ids(100, i % 16));
        ++n_found;
      }
    });
  }
  for (int i = 0; i < kRounds || n_found.load() == 0; ++i) {
    memory.Keep(Place(i % 3 == 0 ? kBob : kAnn, i % 16), Turn("hi"), Ids(100, i % 16));
    EXPECT_TRUE(memory.Reserve(kKiB));
    EXPECT_LE(memory.n_bytes(), 17 * kKiB);
    memory.Release(kKiB);
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
}

TurnStart Start(TurnMemory& memory) {
  return {.memory = &memory, .place = Place(kAnn), .opening = {kFirst}};
}

TEST(TurnRecorder, KeepsTheOpeningTheTokensOfTheTurnAndOneEnd) {
  TurnMemory memory(kMiB);
  const TurnStart start = Start(memory);
  {
    TurnRecorder recorder(start);
    recorder.TakeTokens(std::vector{TokenId(50), TokenId(51)});
    recorder.TakeTokens(std::vector{TokenId(52), TokenId(53)});
    recorder.TakeEvent(
        {.kind = OutputKind::kReasoning, .text = "s", .logprobs = {}, .call_id = {}});
    recorder.TakeEvent({.kind = OutputKind::kContent, .text = "h", .logprobs = {}, .call_id = {}});
    recorder.TakeEvent({.kind = OutputKind::kContent, .text = "i", .logprobs = {}, .call_id = {}});
    recorder.Keep(3, kEnd);
  }
  const auto ids = memory.Find(Place(kAnn), Turn("hi", "s"), kFirst);
  EXPECT_EQ(ids, (std::vector{kFirst, TokenId(50), TokenId(51), TokenId(52), kEnd}));
}

TEST(TurnRecorder, WhatWasReservedForATurnIsReleasedHoweverItEnds) {
  TurnMemory memory(kMiB);
  const TurnStart start = Start(memory);
  {
    TurnRecorder recorder(start);
    const std::string text(50'000, 'x');
    recorder.TakeEvent({.kind = OutputKind::kContent, .text = text, .logprobs = {}, .call_id = {}});
    EXPECT_GE(memory.n_bytes(), 50'000);
  }
  EXPECT_EQ(memory.n_bytes(), 0);
}

TEST(TurnRecorder, ATurnThatIsTooLongIsLetGo) {
  for (const size_t n_more : {0u, 1u}) {
    TurnMemory memory(kMiB);
    const TurnStart start = Start(memory);
    TurnRecorder recorder(start);
    const auto n = static_cast<size_t>(limits::kMaxTurnTokens);
    recorder.TakeTokens(std::vector<TokenId>(n, TokenId(50)));
    recorder.TakeTokens(std::vector<TokenId>(n_more, TokenId(50)));
    recorder.Keep(static_cast<int32_t>(n), kEnd);
    EXPECT_EQ(memory.Find(Place(kAnn), Turn(""), kFirst).has_value(), n_more == 0);
  }
}

TEST(TurnRecorder, WithoutRoomATurnIsLetGoAndTheOthersGoOn) {
  TurnMemory memory(16 * kKiB);
  const TurnStart start = Start(memory);
  TurnRecorder small(start);
  small.TakeTokens(std::vector{TokenId(50)});
  TurnRecorder large(start);
  large.TakeTokens(std::vector<TokenId>(10'000, TokenId(51)));
  large.TakeTokens(std::vector{TokenId(51)});
  large.Keep(1, kEnd);
  EXPECT_FALSE(memory.Find(Place(kAnn), Turn(""), kFirst));
  small.Keep(1, kEnd);
  EXPECT_EQ(memory.Find(Place(kAnn), Turn(""), kFirst)->at(1), TokenId(50));
}

}  // namespace
}  // namespace sluice::codec
