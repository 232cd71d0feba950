// What agents do to a cache, as users of other servers reported it (spec open-cases.md §3.6, §3.9):
// transcripts that grow, turns that part, answers whose reasoning is dropped. Over the model
// without arithmetic, whose tokens depend on the whole prefix as memory has it.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_test_impl.h"
#include "model/stub.h"

namespace sluice::engine {
namespace {

constexpr int32_t kVocab = 1000;
constexpr int32_t kContextTokens = 16'384;
constexpr TokenId kEos{0};
constexpr int32_t kWindow = model::StubModel::kWindow;

using Tokens = std::vector<TokenId>;

struct AgentCases : testing::Test, EngineInVirtualTime {
  void StartStub(int32_t n_windows, int32_t max_running = 4) {
    StartWith({.max_running = max_running,
               .max_waiting = 100,
               .n_context = kContextTokens,
               .n_prompt_rows = 512,
               .n_windows = n_windows,
               .replay = Replay::kExact,
               .checks_invariants = true},
              std::make_unique<model::StubModel>(model::StubModel::Params{
                  .n_vocab = kVocab, .n_context = kContextTokens, .eos = kEos}));
  }
  // One request to its end; what it ran again behind its hit.
  int64_t RunOne(wire::GenerateRequest request) {
    const int64_t n_before = engine->batch()->counts().n_replayed;
    last = &Submit(std::move(request));
    RunAt(At(++now_ms));
    SLUICE_CHECK(last->ended() && last->end().status.ok());
    return engine->batch()->counts().n_replayed - n_before;
  }
  Tokens LastAnswer() const {
    Tokens tokens;
    for (const int32_t token : TokensOf(*last)) tokens.emplace_back(token);
    return tokens;
  }

  // Its greedy tokens, computed from the prompt alone.
  static Tokens Wanted(const Tokens& prompt, int32_t n) {
    const model::StubModel model({.n_vocab = kVocab, .n_context = kContextTokens, .eos = kEos});
    const int32_t decoder_begin = std::max(0, static_cast<int32_t>(prompt.size()) - kWindow);
    Tokens tokens = prompt;
    for (int32_t i = 0; i < n; ++i) tokens.push_back(model.WantedBehind(tokens, decoder_begin));
    return {tokens.end() - n, tokens.end()};
  }
  static Tokens Text(int32_t n, int32_t salt) {
    Tokens tokens;
    for (int32_t i = 0; i < n; ++i) tokens.emplace_back(1 + (i * 31 + salt * 7919) % (kVocab - 1));
    return tokens;
  }

  Listener* last = nullptr;
  int64_t now_ms = 0;
  uint64_t n_asked = 0;
};

void Append(const Tokens& more, Tokens& tokens) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

TEST_F(AgentCases, C41TheFirstOfEqualRequestsIsLikeTheOthers) {
  StartStub(4);
  const Tokens prompt = Text(700, 1);
  const Tokens wanted = Wanted(prompt, 40);
  for (int i = 0; i < 4; ++i) {
    wire::GenerateRequest request = Ask(++n_asked, prompt, 40);
    request.sampling.logprobs = true;
    RunOne(std::move(request));
    EXPECT_EQ(LastAnswer(), wanted) << i;
    EXPECT_EQ(last->end().usage.n_cached > 0, i > 0);
  }
}

// 1 to 3 thousand tokens a turn, few places for windows, and short requests that take them.
TEST_F(AgentCases, C52ATranscriptThatGrowsIsFoundInEveryTurn) {
  StartStub(2);
  Tokens transcript = Text(1500, 1);
  for (int32_t turn = 1; turn <= 6; ++turn) {
    const auto n_known = static_cast<int32_t>(transcript.size());
    Append(Text(1000 + 300 * turn, turn), transcript);
    for (int32_t i = 0; i < 5; ++i) Submit(Ask(++n_asked, Text(200 + i, 100 * turn + i), 3));
    const int64_t n_replayed = RunOne(Ask(++n_asked, transcript, 20));
    EXPECT_EQ(LastAnswer(), Wanted(transcript, 20)) << turn;
    if (turn > 1) {
      EXPECT_GE(last->end().usage.n_cached, n_known - 2) << turn;
    }
    EXPECT_LE(n_replayed, kWindow) << turn;
    Append(LastAnswer(), transcript);
  }
}

// The client drops the reasoning, so the next turn goes on behind the prompt, not behind the
// answer; the end token of the answer is in its text and was never run.
TEST_F(AgentCases, C53ATurnRunsWhatIsNewAlthoughItsReasoningIsDropped) {
  for (const int32_t n_windows : {1, 8}) {
    StartStub(n_windows);
    Tokens history = Text(601, 1);
    for (int32_t turn = 1; turn <= 4; ++turn) {
      const auto n_prompt = static_cast<int32_t>(history.size());
      RunOne(Ask(++n_asked, history, 30));
      const Tokens answer = LastAnswer();
      EXPECT_EQ(answer, Wanted(history, 30));
      Append({answer.begin() + 20, answer.end()}, history);  // 20 were reasoning
      history.push_back(kEos);
      Append(Text(150, turn), history);
      wire::GenerateRequest next = Ask(++n_asked, history, 1);
      const int64_t n_replayed = RunOne(std::move(next));
      EXPECT_EQ(last->end().usage.n_cached, n_prompt / 2 * 2) << n_windows;
      // With room for both, the windows of the prompt's end are there beside those of the answer's.
      EXPECT_LE(n_replayed, n_windows > 1 ? 0 : kWindow) << turn;
    }
  }
}

// Nothing is kept back, so everything that was answered is found, the end token excepted.
TEST_F(AgentCases, C53TheEndTokenShiftsNothing) {
  StartStub(8);
  Tokens history = Text(301, 1);
  RunOne(Ask(++n_asked, history, 31));
  Append(LastAnswer(), history);
  const auto n_known = static_cast<int32_t>(history.size());
  history.push_back(kEos);
  Append(Text(10, 2), history);
  RunOne(Ask(++n_asked, history, 20));
  // The last token that was drawn had not run.
  EXPECT_EQ(last->end().usage.n_cached, (n_known - 1) / 2 * 2);
  EXPECT_EQ(LastAnswer(), Wanted(history, 20));
}

TEST_F(AgentCases, C54TurnsThatPartNeverRunOutOfWindows) {
  StartStub(2);
  const Tokens session = Text(1200, 1);
  RunOne(Ask(++n_asked, session, 5));
  for (int32_t turn = 1; turn <= 40; ++turn) {
    Tokens parted(session.begin(), session.end() - 3 * turn);
    const auto n_shared = static_cast<int32_t>(parted.size());
    Append(Text(60, 50 + turn), parted);
    const int64_t n_replayed = RunOne(Ask(++n_asked, parted, 5));
    EXPECT_GE(last->end().usage.n_cached, n_shared - 1);
    // The window of the hit, and that of the prompt's second half, which begins before it.
    EXPECT_LE(n_replayed, 2 * kWindow);
    EXPECT_EQ(LastAnswer(), Wanted(parted, 5));
  }
  const Status refusal = Refusal(Ask(++n_asked, Text(kContextTokens + 1, 1), 5));
  EXPECT_EQ(refusal.code(), ErrorCode::kContextLength);
  EXPECT_EQ(refusal.message(), "prompt is too long: 16385 tokens > 16384 maximum");
}

}  // namespace
}  // namespace sluice::engine
