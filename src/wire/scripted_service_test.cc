// What a script plays: tokens, timing, limits, stops, log probabilities, faults.

#include "wire/scripted_service.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/scripted_service_test_impl.h"

namespace sluice::wire {
namespace {

class ScriptedServiceTest : public testing::Test, protected ServiceInVirtualTime {};

TEST_F(ScriptedServiceTest, TellsWhatItFoundInTheCacheFirstAndAtTheEnd) {
  Start();
  for (const auto& [n_asked, n_told] : {std::pair(2, 2), std::pair(9, 3)}) {  // of three
    ScriptPlay play;
    play.ids = {TokenId('a'), TokenId('b')};
    play.n_cached = n_asked;
    GenerateRequest request = Ask(static_cast<uint64_t>(n_asked), Say("abc"));
    request.script = std::make_shared<const ScriptPlay>(std::move(play));
    Listener& client = Listen();
    ASSERT_TRUE(service->Submit(std::move(request), client.queue).ok());
    RunAt(At(0));
    EXPECT_EQ(client.events.front().n_cached, n_told);
    EXPECT_EQ(client.events[1].n_cached, -1);
    EXPECT_EQ(client.end().usage.n_cached, n_told);
  }
}

TEST_F(ScriptedServiceTest, PlaysTheIdsOneByOneThenEnds) {
  Start();
  Listener& client = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say("abc")), client.queue).ok());
  RunAt(At(0));
  ASSERT_EQ(client.events.size(), 4u);
  EXPECT_EQ(client.text, "abc");
  EXPECT_EQ(client.events[1].first_index, 1);
  EXPECT_EQ(client.end().finish, FinishReason::kEnd);
  EXPECT_TRUE(client.end().status.ok());
  EXPECT_EQ(client.end().usage.n_prompt, 3);
  EXPECT_EQ(client.end().usage.n_cached, 0);
  EXPECT_EQ(client.end().usage.n_completion, 3);
  EXPECT_TRUE(client.events[3].tokens.empty());
  EXPECT_TRUE(client.events[0].logprobs.empty());
}

TEST_F(ScriptedServiceTest, AnEmptyScriptIsATerminalEventAlone) {
  Start();
  Listener& client = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say("")), client.queue).ok());
  RunAt(At(0));
  ASSERT_EQ(client.events.size(), 1u);
  EXPECT_EQ(client.end().finish, FinishReason::kEnd);
  EXPECT_EQ(client.end().usage.n_completion, 0);
}

TEST_F(ScriptedServiceTest, AStepEmitsOneEventPerSequenceInOrder) {
  Start();
  Listener& a = Listen();
  Listener& b = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say("abcd")), a.queue).ok());
  ASSERT_TRUE(service->Submit(Ask(2, Say("ef")), b.queue).ok());
  for (int32_t n = 1; n <= 2; ++n) {
    EXPECT_EQ(service->Step(At(0)), At(0));
    a.Drain();
    b.Drain();
    EXPECT_EQ(a.events.size(), static_cast<size_t>(n));
    EXPECT_EQ(b.events.size(), static_cast<size_t>(n));
  }
}

TEST_F(ScriptedServiceTest, TokensPerEventGroupsAndTheLastEventMayHoldFewer) {
  Start();
  Listener& client = Listen();
  ScriptPlay play = Say("abcdefgh");
  play.n_per_event = 3;
  ASSERT_TRUE(service->Submit(Ask(1, std::move(play)), client.queue).ok());
  RunAt(At(0));
  ASSERT_EQ(client.events.size(), 3u);
  EXPECT_EQ(client.events[0].tokens.size(), 3u);
  EXPECT_EQ(client.events[1].first_index, 3);
  EXPECT_EQ(client.events[2].tokens.size(), 2u);
  EXPECT_EQ(client.end().finish, FinishReason::kEnd);
  EXPECT_EQ(client.end().usage.n_completion, 8);
}

TEST_F(ScriptedServiceTest, FirstAndPaceDelayEvents) {
  Start();
  Listener& client = Listen();
  ScriptPlay play = Say("ab");
  play.first = Duration::Millis(100);
  play.pace = Duration::Millis(10);
  ASSERT_TRUE(service->Submit(Ask(1, std::move(play)), client.queue).ok());
  EXPECT_EQ(service->Step(At(0)), At(110));
  EXPECT_EQ(service->Step(At(109)), At(110));
  client.Drain();
  EXPECT_TRUE(client.events.empty());
  EXPECT_EQ(service->Step(At(110)), At(120));
  EXPECT_EQ(service->Step(At(120)), At(130));
  service->Step(At(130));
  client.Drain();
  EXPECT_EQ(client.text, "ab");
  EXPECT_TRUE(client.ended());
}

TEST_F(ScriptedServiceTest, ALateStepDoesNotMakeUpForLostTime) {
  Start();
  Listener& client = Listen();
  ScriptPlay play = Say("abc");
  play.pace = Duration::Millis(10);
  ASSERT_TRUE(service->Submit(Ask(1, std::move(play)), client.queue).ok());
  service->Step(At(0));
  EXPECT_EQ(service->Step(At(35)), At(45));
  client.Drain();
  EXPECT_EQ(client.text, "a");
}

TEST_F(ScriptedServiceTest, TheLimitCutsBeforeTheEnd) {
  Start();
  struct Row {
    int32_t n_max;
    const char* text;
    FinishReason finish;
  };
  const Row rows[] = {{1, "a", FinishReason::kLength},
                      {2, "ab", FinishReason::kLength},
                      {3, "abc", FinishReason::kLength},  // full, but no place for the end token
                      {4, "abc", FinishReason::kEnd}};
  uint64_t id = 0;
  for (int32_t n_per_event : {1, 2, 3, 5}) {
    for (const Row& row : rows) {
      Listener& client = Listen();
      ScriptPlay play = Say("abc");
      play.n_per_event = n_per_event;
      GenerateRequest request = Ask(++id, std::move(play));
      request.n_max = row.n_max;
      ASSERT_TRUE(service->Submit(std::move(request), client.queue).ok());
      RunAt(At(0));
      ASSERT_TRUE(client.ended());
      EXPECT_EQ(client.text, row.text) << n_per_event;
      EXPECT_EQ(client.end().finish, row.finish) << row.n_max << " " << n_per_event;
      EXPECT_EQ(client.end().usage.n_completion, static_cast<int32_t>(client.text.size()));
      if (row.finish == FinishReason::kLength) {
        EXPECT_FALSE(client.events.back().tokens.empty()) << "the limit ends with the last token";
      }
    }
  }
}

TEST_F(ScriptedServiceTest, AStopIdEndsUnsentAndUncounted) {
  Start();
  for (int32_t n_per_event : {1, 4}) {
    Listener& client = Listen();
    ScriptPlay play = Say("abXcd");
    play.n_per_event = n_per_event;
    GenerateRequest request = Ask(static_cast<uint64_t>(n_per_event), std::move(play));
    request.stop_ids = {TokenId('Y'), TokenId('X')};
    ASSERT_TRUE(service->Submit(std::move(request), client.queue).ok());
    RunAt(At(0));
    EXPECT_EQ(client.text, "ab");
    EXPECT_EQ(client.end().finish, FinishReason::kStopId);
    EXPECT_EQ(client.end().usage.n_completion, 2);
  }
}

TEST_F(ScriptedServiceTest, TheLimitCutsBeforeAStopIdBehindIt) {
  Start();
  Listener& client = Listen();
  GenerateRequest request = Ask(1, Say("abX"));
  request.stop_ids = {TokenId('X')};
  request.n_max = 2;
  ASSERT_TRUE(service->Submit(std::move(request), client.queue).ok());
  RunAt(At(0));
  EXPECT_EQ(client.end().finish, FinishReason::kLength);
}

TEST_F(ScriptedServiceTest, LogprobsComeOnePerTokenWithDistinctAlternativesBestFirst) {
  Start();
  for (std::optional<float> given : {std::optional<float>(-0.25f), std::optional<float>()}) {
    Listener& client = Listen();
    ScriptPlay play;
    play.ids = {TokenId(0), TokenId(3), TokenId(255)};
    play.n_per_event = 2;
    play.logprob = given;
    GenerateRequest request = Ask(given ? 1 : 2, std::move(play));
    request.sampling.logprobs = true;
    request.sampling.n_top_logprobs = 20;
    ASSERT_TRUE(service->Submit(std::move(request), client.queue).ok());
    RunAt(At(0));
    for (const TokenEvent& event : client.events) {
      ASSERT_EQ(event.logprobs.size(), event.tokens.size());
      for (size_t i = 0; i < event.tokens.size(); ++i) {
        const TokenLogprob& logprob = event.logprobs[i];
        EXPECT_LE(logprob.logprob, 0);
        if (given) {
          EXPECT_EQ(logprob.logprob, *given);
        }
        ASSERT_EQ(logprob.alternatives.size(), 20u);
        EXPECT_EQ(logprob.alternatives[0].token, event.tokens[i]);
        EXPECT_EQ(logprob.alternatives[0].logprob, logprob.logprob);
        std::set<TokenId> tokens;
        for (size_t k = 0; k < 20; ++k) {
          int32_t id = logprob.alternatives[k].token.value;
          EXPECT_TRUE(id >= 0 && id <= 255) << id;
          tokens.insert(logprob.alternatives[k].token);
          if (k > 0) {
            EXPECT_LT(logprob.alternatives[k].logprob, logprob.alternatives[k - 1].logprob);
          }
        }
        EXPECT_EQ(tokens.size(), 20u);
      }
    }
  }
}

TEST_F(ScriptedServiceTest, LogprobsWithoutAlternativesIfNoneAreAskedFor) {
  Start();
  Listener& client = Listen();
  GenerateRequest request = Ask(1, Say("a"));
  request.sampling.logprobs = true;
  ASSERT_TRUE(service->Submit(std::move(request), client.queue).ok());
  RunAt(At(0));
  ASSERT_EQ(client.events[0].logprobs.size(), 1u);
  EXPECT_TRUE(client.events[0].logprobs[0].alternatives.empty());
}

TEST_F(ScriptedServiceTest, FailAndSickEndWithAnInternalErrorAfterTheirTokens) {
  Start();
  uint64_t id = 0;
  for (ScriptPlay::Fault fault : {ScriptPlay::Fault::kFail, ScriptPlay::Fault::kSick}) {
    for (int32_t after : {0, 1, 2, 3}) {
      for (int32_t n_per_event : {1, 2, 8}) {
        Listener& client = Listen();
        ScriptPlay play = SayWithFault("abc", fault, after);
        play.n_per_event = n_per_event;
        ASSERT_TRUE(service->Submit(Ask(++id, std::move(play)), client.queue).ok());
        RunAt(At(0));
        ASSERT_TRUE(client.ended());
        EXPECT_EQ(client.text, std::string_view("abc").substr(0, static_cast<size_t>(after)));
        EXPECT_EQ(client.end().finish, FinishReason::kError);
        EXPECT_EQ(client.end().status.code(), ErrorCode::kInternal);
        EXPECT_EQ(client.end().usage.n_completion, after);
      }
    }
  }
}

TEST_F(ScriptedServiceTest, AFaultThatTheOutputDoesNotReachHasNoEffect) {
  Start();
  Listener& beyond = Listen();
  Listener& cut = Listen();
  ASSERT_TRUE(
      service->Submit(Ask(1, SayWithFault("abc", ScriptPlay::Fault::kDie, 4)), beyond.queue).ok());
  GenerateRequest request = Ask(2, SayWithFault("abc", ScriptPlay::Fault::kDie, 2));
  request.n_max = 2;
  ASSERT_TRUE(service->Submit(std::move(request), cut.queue).ok());
  RunAt(At(0));
  EXPECT_EQ(beyond.end().finish, FinishReason::kEnd);
  EXPECT_EQ(cut.end().finish, FinishReason::kLength);
}

TEST_F(ScriptedServiceTest, ASickSequenceLeavesTheOthersAlone) {
  Start();
  Listener& sick = Listen();
  Listener& well = Listen();
  ASSERT_TRUE(
      service->Submit(Ask(1, SayWithFault("abc", ScriptPlay::Fault::kSick, 1)), sick.queue).ok());
  ASSERT_TRUE(service->Submit(Ask(2, Say("wxyz")), well.queue).ok());
  RunAt(At(0));
  EXPECT_EQ(sick.text, "a");
  EXPECT_EQ(well.text, "wxyz");
  EXPECT_EQ(well.end().finish, FinishReason::kEnd);
}

TEST_F(ScriptedServiceTest, AHungSequenceHoldsItsSlotUntilCancelOrDeadline) {
  Start(/*max_running=*/2);
  Listener& cancelled = Listen();
  Listener& timed_out = Listen();
  ASSERT_TRUE(
      service->Submit(Ask(1, SayWithFault("abc", ScriptPlay::Fault::kHang, 1)), cancelled.queue)
          .ok());
  GenerateRequest request = Ask(2, SayWithFault("abc", ScriptPlay::Fault::kHang, 0));
  request.deadline = At(500);
  ASSERT_TRUE(service->Submit(std::move(request), timed_out.queue).ok());
  RunAt(At(0));
  EXPECT_EQ(service->Step(At(1)), At(500));
  EXPECT_EQ(service->Load().n_running, 2);
  service->Cancel(RequestId(1));
  RunAt(At(2));
  EXPECT_EQ(cancelled.text, "a");
  EXPECT_EQ(cancelled.end().status.code(), ErrorCode::kCancelled);
  RunAt(At(500));
  EXPECT_EQ(timed_out.end().status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(service->idle());
}

TEST_F(ScriptedServiceTest, DieEndsTheProcessWithAStatusOfItsOwn) {
  auto die_after = [this](int32_t after) {
    Start();
    Listener& client = Listen();
    Status status =
        service->Submit(Ask(1, SayWithFault("ab", ScriptPlay::Fault::kDie, after)), client.queue);
    RunAt(At(0));
  };
  EXPECT_EXIT(die_after(0), testing::ExitedWithCode(77), "");
  EXPECT_EXIT(die_after(2), testing::ExitedWithCode(77), "");
}

TEST_F(ScriptedServiceTest, RefuseIsTheAnswerOfSubmit) {
  Start();
  Listener& client = Listen();
  ScriptPlay play;
  play.refuse = Status(ErrorCode::kRateLimited, "slow down");
  play.refuse.set_retry_after(Duration::Millis(1'200));
  Status status = service->Submit(Ask(1, std::move(play)), client.queue);
  EXPECT_EQ(status.code(), ErrorCode::kRateLimited);
  EXPECT_EQ(status.retry_after(), Duration::Millis(1'200));
  RunAt(At(0));
  EXPECT_TRUE(client.events.empty());
  EXPECT_TRUE(service->idle());
}

TEST_F(ScriptedServiceTest, ARequestWithoutAScriptIsRefused) {
  Start();
  Listener& client = Listen();
  GenerateRequest request = Ask(1, Say(""));
  request.script = nullptr;
  EXPECT_EQ(service->Submit(std::move(request), client.queue).code(), ErrorCode::kUnsupported);
}

GenerateRequest AskForScores(uint64_t id, int32_t n_prompt, int32_t n_max) {
  GenerateRequest request = Ask(id, Say("ab"));
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < n_prompt; ++i) prompt.emplace_back(i);
  request.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
  request.n_max = n_max;
  request.sampling.n_prompt_logprobs = 2;
  return request;
}

TEST_F(ScriptedServiceTest, ScoresOfThePromptComeInPiecesBeforeTheFirstToken) {
  Start();
  for (const int32_t n_prompt : {1, 2, 17, 40}) {
    Listener& client = Listen();
    const auto id = static_cast<uint64_t>(n_prompt);
    ASSERT_TRUE(service->Submit(AskForScores(id, n_prompt, 2), client.queue).ok());
    RunAt(At(0));
    std::vector<float> scores;
    for (const TokenEvent& event : client.events) {
      EXPECT_LE(event.prompt_logprobs.size(), 16u);
      EXPECT_TRUE(event.prompt_logprobs.empty() || event.first_index == 0);
      for (const TokenLogprob& score : event.prompt_logprobs) {
        scores.push_back(score.logprob);
        EXPECT_EQ(score.alternatives.size(), 2u);
      }
    }
    std::vector<float> wanted;
    for (int32_t i = 1; i < n_prompt; ++i) wanted.push_back(-static_cast<float>(1 + i % 7) / 8);
    EXPECT_EQ(scores, wanted);
    EXPECT_EQ(client.text, "ab");
  }
}

TEST_F(ScriptedServiceTest, NothingIsGeneratedIfOnlyScoresAreAskedFor) {
  Start();
  Listener& client = Listen();
  ASSERT_TRUE(service->Submit(AskForScores(1, 20, 0), client.queue).ok());
  RunAt(At(0));
  EXPECT_EQ(client.text, "");
  EXPECT_EQ(client.end().finish, FinishReason::kLength);
  EXPECT_EQ(client.end().usage.n_completion, 0);
  EXPECT_EQ(client.events.back().prompt_logprobs.size(), 3u) << "the last piece comes with the end";
}

}  // namespace
}  // namespace sluice::wire
