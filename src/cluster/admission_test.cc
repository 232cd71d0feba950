#include "cluster/admission.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/result.h"
#include "cluster/requests_test_impl.h"

namespace sluice::cluster {
namespace {

using wire::RequestClass;

class AdmissionTest : public testing::Test {
 protected:
  Status Check(const AskParams& params, Time now = {}) {
    return admission.Check(Ask(params), queue, now);
  }
  // Of a key, as many as are let in.
  int64_t Fill(uint64_t key, RequestClass request_class = RequestClass::kDefault) {
    int64_t n = 0;
    while (Add({.key = key, .request_class = request_class, .n_prompt = 1}).ok()) ++n;
    return n;
  }
  Status Add(AskParams params, Time now = {}) {
    params.id = ++n_ids;
    SLUICE_TRY(Check(params, now));
    queue.Push({.request = Ask(params), .out = nullptr, .since = now});
    return Status::Ok();
  }
  // So many of cost 1,000 have gone in a second in which something waited.
  void Measure(int n) {
    admission.meter().Update(At(0), true);
    admission.meter().Update(At(1'000), true);
    for (int i = 0; i < n; ++i) admission.meter().Add(1'000);
  }

  uint64_t n_ids = 0;
  FairQueue queue;
  Admission admission{{.n_requests_max = 80, .n_tokens_max = 10'000}};
};

TEST_F(AdmissionTest, AFullQueueIsTheServersFaultAndSaysSo) {
  EXPECT_EQ(Fill(0, RequestClass::kInteractive), 80);
  const Status status = Check({.request_class = RequestClass::kInteractive});
  EXPECT_EQ(status.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(status.api_code(), "queue_full");
  EXPECT_EQ(status.message(), "80 requests are waiting; of max-waiting this class fills 80");
  EXPECT_GE(status.retry_after(), kLeastRetry);
}

TEST_F(AdmissionTest, PromptsAreBoundedTogether) {
  ASSERT_TRUE(Add({.request_class = RequestClass::kInteractive, .n_prompt = 9'000}).ok());
  EXPECT_TRUE(Check({.request_class = RequestClass::kInteractive, .n_prompt = 1'000}).ok());
  const Status status = Check({.request_class = RequestClass::kInteractive, .n_prompt = 1'001});
  EXPECT_EQ(status.api_code(), "queue_tokens_full");
  EXPECT_EQ(status.message(),
            "9000 tokens of prompts are waiting; of max-waiting-tokens this class fills 10000");
}

TEST_F(AdmissionTest, APromptLargerThanTheQueueMayWaitAlone) {
  EXPECT_TRUE(Check({.n_prompt = 20'000}).ok());
  ASSERT_TRUE(Add({.n_prompt = 1}).ok());
  EXPECT_EQ(Check({.n_prompt = 20'000}).code(), ErrorCode::kOverloaded);
}

TEST_F(AdmissionTest, OneKeyLeavesRoomForAnotherAndForAThird) {
  EXPECT_EQ(Fill(1), 56) << "four times what is left of its class's 70";
  const Status status = Check({.key = 1});
  EXPECT_EQ(status.code(), ErrorCode::kRateLimited);
  EXPECT_EQ(status.api_code(), "key_queue_full");
  EXPECT_EQ(Fill(2), 12);
  EXPECT_EQ(Fill(3), 2);
  EXPECT_EQ(Check({.key = 1}).code(), ErrorCode::kOverloaded) << "now others have filled it";
  EXPECT_TRUE(Check({.key = 4, .request_class = RequestClass::kInteractive}).ok());
}

// 8,750 tokens are for the class.
TEST_F(AdmissionTest, OneKeyLeavesRoomForPromptsOfOthers) {
  ASSERT_TRUE(Add({.key = 1, .n_prompt = 5'000}).ok());
  ASSERT_TRUE(Add({.key = 1, .n_prompt = 2'000}).ok());
  EXPECT_EQ(Check({.key = 1, .n_prompt = 1'000}).api_code(), "key_queue_tokens_full");
  EXPECT_TRUE(Check({.key = 2, .n_prompt = 1'000}).ok());
  EXPECT_EQ(Check({.key = 1, .n_prompt = 2'000}).api_code(), "queue_tokens_full")
      << "nobody's would fit";
}

TEST_F(AdmissionTest, WithoutKeysThereIsNobodyToLeaveRoomFor) {
  EXPECT_EQ(Fill(0), 70);
  EXPECT_EQ(Fill(0, RequestClass::kInteractive), 10);
}

TEST_F(AdmissionTest, LowClassesLeaveRoomForHighOnes) {
  EXPECT_EQ(Fill(0, RequestClass::kBulk), 40);
  EXPECT_EQ(Check({.request_class = RequestClass::kBulk}).api_code(), "queue_full");
  EXPECT_EQ(Fill(0, RequestClass::kDefault), 30);
  EXPECT_EQ(Fill(0, RequestClass::kInteractive), 10);
}

TEST_F(AdmissionTest, AQueueOfNoPlacesRefusesAll) {
  const Admission none{{.n_requests_max = 0, .n_tokens_max = 1}};
  EXPECT_EQ(none.Check(Ask({}), queue, {}).api_code(), "queue_full");
}

TEST_F(AdmissionTest, WhoWouldMissItsDeadlineIsRefusedAtOnce) {
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Add({.n_prompt = 994}).ok());
  const AskParams hasty{.n_prompt = 1, .deadline = At(3'000)};
  EXPECT_TRUE(Check(hasty).ok()) << "nothing is known of how fast it goes";
  Measure(2);  // 2,000 a second: eight are four seconds
  EXPECT_EQ(Check(hasty).api_code(), "deadline_unreachable");
  EXPECT_TRUE(Check({.n_prompt = 1, .deadline = At(5'000)}).ok());
  EXPECT_TRUE(Check({.request_class = RequestClass::kInteractive, .deadline = At(3'000)}).ok())
      << "the others are not before it";
}

TEST_F(AdmissionTest, ARetryComesWhenTheQueueHasDrainedAndNotAllAtOnce) {
  Measure(1);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Add({.n_prompt = 994}).ok());  // eight seconds
  std::set<int64_t> told;
  for (uint64_t id = 100; id < 110; ++id) {
    const Duration after = Check({.id = id, .n_prompt = 5'000}).retry_after();
    EXPECT_GE(after, Duration::Seconds(8));
    EXPECT_LE(after.seconds(), 8 * (1 + kRetryJitter) + 0.001);
    told.insert(after.ns);
  }
  EXPECT_GT(told.size(), 5u);
}

TEST_F(AdmissionTest, NobodyIsToldToWaitForHours) {
  admission.meter().Update(At(0), true);
  admission.meter().Update(At(60'000), true);
  admission.meter().Add(1);
  ASSERT_TRUE(Add({.n_prompt = 9'000}).ok());
  EXPECT_LE(Check({.n_prompt = 9'000}).retry_after().seconds(),
            kLongestRetry.seconds() * (1 + kRetryJitter));
}

TEST(DrainMeter, TimeInWhichNothingWaitsDoesNotCount) {
  DrainMeter meter;
  EXPECT_FALSE(meter.TimeFor(1).has_value());
  meter.Update(At(0), true);
  meter.Update(At(2'000), false);
  meter.Add(200);
  meter.Update(At(900'000), true);
  EXPECT_NEAR(meter.TimeFor(100)->seconds(), 1.0, 1e-6);
}

TEST(DrainMeter, WhatIsNowCountsMoreThanWhatWas) {
  DrainMeter meter;
  int64_t now_ms = 0;
  const auto pass = [&](int64_t n_seconds, int64_t cost) {
    for (int64_t i = 0; i < n_seconds; ++i) {
      meter.Update(At(now_ms += 1'000), true);
      meter.Add(cost);
    }
  };
  meter.Update(At(0), true);
  pass(600, 1'000);
  pass(120, 10);
  EXPECT_GT(meter.TimeFor(1'000)->seconds(), 20.0);
}

}  // namespace
}  // namespace sluice::cluster
