#include "codec/dialect/responses/response_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"

namespace sluice::codec::responses {
namespace {

const KeyId kAnn(1);
const KeyId kBob(2);

ResponseStore::Limits Roomy() {
  return {.n_bytes = kMiB, .n_responses = 100, .age = Duration::Seconds(100)};
}

StoredResponse Made(const std::string& id, const std::string& text = "x") {
  return {.head = R"({"id":")" + id + '"',
          .output = {{.id = "rs_" + id + "_0", .text = R"({"type":"reasoning"})"},
                     {.id = "msg_" + id + "_1", .text = R"({"text":")" + text + "\"}"}},
          .input = "[]"};
}

TEST(ResponseStore, FindsWhatItsOwnKeyKeptAndNobodyElse) {
  ResponseStore store(Roomy());
  store.Keep(kAnn, "resp_1", Made("resp_1", "hello"));
  ASSERT_TRUE(store.Find(kAnn, "resp_1"));
  EXPECT_EQ(store.Find(kAnn, "resp_1")->ToText(),
            R"({"id":"resp_1","output":[{"type":"reasoning"},{"text":"hello"}]})");
  EXPECT_FALSE(store.Find(kBob, "resp_1"));
  EXPECT_FALSE(store.FindItem(kBob, "msg_resp_1_1"));
  EXPECT_FALSE(store.Forget(kBob, "resp_1"));
  EXPECT_TRUE(store.Find(kAnn, "resp_1"));
}

TEST(ResponseStore, FindsItemsByTheirWholeId) {
  ResponseStore store(Roomy());
  store.Keep(kAnn, "resp_1", Made("resp_1", "hello"));
  EXPECT_EQ(store.FindItem(kAnn, "msg_resp_1_1"), R"({"text":"hello"})");
  EXPECT_EQ(store.FindItem(kAnn, "rs_resp_1_0"), R"({"type":"reasoning"})");
  for (const char* id : {"msg_resp_1_0", "rs_resp_1_1", "fc_resp_1_0", "msg_resp_2_1", "resp_1",
                         "msg_resp_1_", "msg__1", "msg_", "_", "", "msg_resp_1_1_1"}) {
    EXPECT_FALSE(store.FindItem(kAnn, id)) << id;
  }
}

TEST(ResponseStore, WhatWasForgottenIsGoneWithItsItemsAndItsMemory) {
  ResponseStore store(Roomy());
  store.Keep(kAnn, "resp_1", Made("resp_1"));
  EXPECT_GT(store.load().n_bytes, 0);
  EXPECT_TRUE(store.Forget(kAnn, "resp_1"));
  EXPECT_FALSE(store.Forget(kAnn, "resp_1"));
  EXPECT_FALSE(store.FindItem(kAnn, "msg_resp_1_1"));
  EXPECT_EQ(store.load().n_bytes, 0);
  EXPECT_EQ(store.load().n_responses, 0);
}

TEST(ResponseStore, TheOldestMakesRoomWhenThereAreTooMany) {
  ResponseStore::Limits limits = Roomy();
  limits.n_responses = 3;
  ResponseStore store(limits);
  for (int i = 0; i < 5; ++i) {
    const std::string id = "resp_" + std::to_string(i);
    store.Keep(kAnn, id, Made(id));
  }
  EXPECT_EQ(store.load().n_responses, 3);
  EXPECT_FALSE(store.Find(kAnn, "resp_1"));
  EXPECT_TRUE(store.Find(kAnn, "resp_2"));
  EXPECT_TRUE(store.Find(kAnn, "resp_4"));
}

TEST(ResponseStore, ABusyKeyMakesRoomAtItsOwnCost) {
  ResponseStore::Limits limits = Roomy();
  limits.n_bytes = 64 * kKiB;
  ResponseStore store(limits);
  store.Keep(kBob, "resp_b", Made("resp_b"));
  for (int i = 0; i < 100; ++i) {
    const std::string id = "resp_" + std::to_string(i);
    store.Keep(kAnn, id, Made(id, std::string(4000, 'x')));
    EXPECT_LE(store.load().n_bytes, limits.n_bytes);
  }
  EXPECT_TRUE(store.Find(kBob, "resp_b"));
  EXPECT_TRUE(store.Find(kAnn, "resp_99"));
  EXPECT_FALSE(store.Find(kAnn, "resp_0"));
}

TEST(ResponseStore, NothingLongerThanItsLimitsIsTaken) {
  ResponseStore store(Roomy());
  EXPECT_TRUE(store.Takes(kMiB));
  EXPECT_FALSE(store.Takes(kMiB + 1));
  store.Keep(kAnn, "resp_1", Made("resp_1", std::string(kMiB, 'x')));
  EXPECT_FALSE(store.Find(kAnn, "resp_1"));
  ResponseStore large({.n_bytes = 1024 * kMiB, .n_responses = 1, .age = Duration::Seconds(1)});
  EXPECT_FALSE(large.Takes(limits::kMaxStoredResponseBytes + 1));
  ResponseStore none({.n_bytes = kMiB, .n_responses = 0, .age = Duration::Seconds(1)});
  EXPECT_FALSE(none.Takes(1));
}

TEST(ResponseStore, WhatIsTooOldGoes) {
  ResponseStore store(Roomy());
  const Time start = Time() + Duration::Seconds(1000);
  store.Expire(start);
  store.Keep(kAnn, "resp_1", Made("resp_1"));
  store.Expire(start + Duration::Seconds(60));
  store.Keep(kAnn, "resp_2", Made("resp_2"));
  store.Expire(start + Duration::Seconds(99));
  EXPECT_TRUE(store.Find(kAnn, "resp_1"));
  store.Expire(start + Duration::Seconds(100));
  EXPECT_FALSE(store.Find(kAnn, "resp_1"));
  EXPECT_TRUE(store.Find(kAnn, "resp_2"));
  store.Expire(start + Duration::Seconds(160));
  EXPECT_EQ(store.load().n_responses, 0);
  EXPECT_EQ(store.load().n_bytes, 0);
}

// For the thread sanitizer, and for the counts: requests are decoded on some threads while another
// keeps, forgets and expires.
TEST(ResponseStore, ThreadsFindWholeResponsesOrNone) {
  constexpr int kRounds = 2000;
  ResponseStore::Limits limits = Roomy();
  limits.n_responses = 8;
  ResponseStore store(limits);
  std::atomic<bool> is_done{false};
  std::atomic<int64_t> n_found{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&store, &is_done, &n_found, t] {
      for (int i = t; !is_done.load(); ++i) {
        const std::string id = "resp_" + std::to_string(i % 16);
        if (auto found = store.Find(kAnn, id)) {
          EXPECT_EQ(found->ToText(), Made(id, id).ToText());
          ++n_found;
        }
        if (auto item = store.FindItem(kAnn, "msg_" + id + "_1")) {
          EXPECT_EQ(*item, R"({"text":")" + id + "\"}");
        }
      }
    });
  }
  for (int i = 0; i < kRounds || n_found.load() == 0; ++i) {
    const std::string id = "resp_" + std::to_string(i % 16);
    store.Keep(kAnn, id, Made(id, id));
    if (i % 5 == 0) store.Forget(kAnn, "resp_" + std::to_string(i % 7));
    store.Expire(Time() + Duration::Millis(i));
    EXPECT_LE(store.load().n_responses, 8);
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace sluice::codec::responses
