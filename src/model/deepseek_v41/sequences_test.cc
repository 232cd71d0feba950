// What a row's result may not depend on (ARCHITECTURE.md §11), and what becomes of state that is
// rolled back, copied, taken out and put in. All comparisons are of bits.

#include "model/sequences.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "model/deepseek_v41/tiny_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

using Part = Sequences::Part;

// Everything a sequence keeps.
void ExpectSameState(Sequences& a, int32_t seq_a, Sequences& b, int32_t seq_b) {
  const int32_t n = a.length(seq_a);
  ASSERT_EQ(n, b.length(seq_b));
  EXPECT_EQ(a.ExportPrefix(seq_a, n).rows, b.ExportPrefix(seq_b, n).rows);
  EXPECT_EQ(a.ExportPrivate(seq_a).bytes, b.ExportPrivate(seq_b).bytes);
}

class InBothArithmetics : public testing::TestWithParam<Arithmetic> {};
INSTANTIATE_TEST_SUITE_P(All,
                         InBothArithmetics,
                         testing::Values(Arithmetic::kFloat32, Arithmetic::kExact));

TEST_P(InBothArithmetics, ChunksOfAnySizeGiveTheSameLogitsAndState) {
  const std::vector<TokenId> tokens = SomeTokens(97);
  TinyRun whole({.arithmetic = GetParam()});
  const std::vector<float> wanted = whole.Append(0, tokens);
  // 15 and 29: a piece begins in the middle of a pair and goes once round the ring of open pairs.
  for (int32_t n_piece : {1, 7, 13, 15, 16, 29, 64}) {
    TinyRun cut({.arithmetic = GetParam()});
    EXPECT_EQ(cut.AppendIn(n_piece, 0, tokens), wanted) << n_piece;
    ExpectSameState(*whole, 0, *cut, 0);
  }
}

TEST(Sequences, LogitsOfAPrefixAreThoseOfTheLongerPrompt) {
  const std::vector<TokenId> tokens = SomeTokens(130);
  TinyRun run;
  const std::vector<float> wanted = run.Append(0, tokens);
  for (size_t n : {1, 2, 16, 17, 18, 64, 65, 129}) {
    run->Clear(1);
    const std::vector<float> some = run.Append(1, std::span(tokens).first(n));
    EXPECT_TRUE(std::equal(some.begin(), some.end(), wanted.begin())) << n;
  }
}

TEST(Sequences, TheNumberOfThreadsChangesNothing) {
  const std::vector<TokenId> tokens = SomeTokens(97);
  TinyRun one;
  const std::vector<float> wanted = one.Append(0, tokens);
  for (int32_t n_threads : {2, 3}) {
    TinyRun more({.n_threads = n_threads});
    EXPECT_EQ(more.Append(0, tokens), wanted) << n_threads;
  }
}

// A piece of a prompt, single tokens and rows to verify, of sequences of different lengths.
TEST(Sequences, ABatchGivesWhatEachSequenceGivesAlone) {
  const std::vector<std::vector<TokenId>> before = {SomeTokens(5, 1), SomeTokens(64, 2),
                                                    SomeTokens(97, 3), SomeTokens(18, 4)};
  const std::vector<std::vector<TokenId>> next = {SomeTokens(70, 5), SomeTokens(1, 6),
                                                  SomeTokens(6, 7), SomeTokens(1, 8)};
  TinyRun together({.n_seqs = 4, .n_context = 192, .n_threads = 2});
  TinyRun alone({.n_seqs = 4, .n_context = 192});
  std::vector<Part> parts;
  std::vector<float> wanted;
  for (int32_t seq : {0, 1, 2, 3}) {
    const auto s = static_cast<size_t>(seq);
    together.Append(seq, before[s]);
    alone.Append(seq, before[s]);
    const std::vector<float> logits = alone.Append(seq, next[s]);
    wanted.insert(wanted.end(), logits.begin(), logits.end());
    parts.push_back(
        {.seq = seq, .tokens = next[s], .n_logits = static_cast<int32_t>(next[s].size())});
  }
  EXPECT_EQ(together.Run(parts).logits, wanted);
  for (int32_t seq : {0, 1, 2, 3}) ExpectSameState(*together, seq, *alone, seq);
}

// Two verifications in flight may write twelve rows that never were. Lengths around pairs of
// tokens, blocks and windows.
TEST(Sequences, RowsRolledBackLeaveNothingBehind) {
  const std::vector<TokenId> tokens = SomeTokens(160);
  TinyRun fresh;
  const std::vector<float> wanted = fresh.Append(0, tokens);
  const int64_t n_vocab = Tiny().info().n_vocab;
  for (int32_t length : {1, 2, 15, 16, 63, 64, 65, 97, 128}) {
    TinyRun run;
    run.Append(0, std::span(tokens).first(static_cast<size_t>(length)));
    for (uint32_t round : {0U, 1U, 2U}) {
      run.Append(0, SomeTokens(6, 90 + round));
      run.Append(0, SomeTokens(6, 95 + round));
      run->RollBack(0, length);
    }
    const std::vector<float> rest =
        run.AppendIn(5, 0, std::span(tokens).subspan(static_cast<size_t>(length)));
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), wanted.begin() + length * n_vocab)) << length;
  }
}

TEST(Sequences, APartOfTheRowsMayBeAccepted) {
  const std::vector<TokenId> tokens = SomeTokens(120);
  TinyRun fresh;
  const std::vector<float> wanted = fresh.Append(0, tokens);
  const int64_t n_vocab = Tiny().info().n_vocab;
  TinyRun run;
  std::vector<float> got = run.Append(0, std::span(tokens).first(40));
  // 1 to 5 right tokens of each six rows.
  for (size_t at = 40, n_right = 1; at + 6 < tokens.size(); n_right = n_right % 5 + 1) {
    std::vector<TokenId> rows(tokens.begin() + static_cast<int64_t>(at),
                              tokens.begin() + static_cast<int64_t>(at + n_right));
    while (rows.size() < 6) rows.emplace_back(static_cast<int32_t>(400 + rows.size()));
    const std::vector<float> logits = run.Append(0, rows);
    got.insert(got.end(), logits.begin(), logits.begin() + static_cast<int64_t>(n_right) * n_vocab);
    at += n_right;
    run->RollBack(0, static_cast<int32_t>(at));
  }
  EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.begin()));
}

TEST(Sequences, ACopyGoesItsOwnWay) {
  const std::vector<TokenId> tokens = SomeTokens(61);
  TinyRun run;
  run.Append(0, tokens);
  run->Copy(0, 1);
  ExpectSameState(*run, 0, *run, 1);
  const std::vector<TokenId> left = SomeTokens(9, 20);
  const std::vector<TokenId> right = SomeTokens(9, 21);
  const std::vector<float> right_logits = run.Append(1, right);
  const std::vector<float> left_logits = run.Append(0, left);
  for (const auto& [branch, logits] : {std::pair(left, left_logits), {right, right_logits}}) {
    TinyRun fresh;
    fresh.Append(0, tokens);
    EXPECT_EQ(fresh.Append(0, branch), logits);
  }
}

TEST(Sequences, WhatWasTakenOutAndPutInGoesOnEqually) {
  const std::vector<TokenId> tokens = SomeTokens(71);
  const std::vector<TokenId> next = SomeTokens(20, 30);
  TinyRun here;
  here.Append(0, tokens);
  const Sequences::Prefix prefix = here->ExportPrefix(0, 71);
  const Sequences::Private state = here->ExportPrivate(0);
  const std::vector<float> wanted = here.Append(0, next);
  TinyRun there;
  there.Append(1, SomeTokens(130, 40));  // what lay there before does not matter
  there->ImportPrefix(1, prefix);
  there->ImportPrivate(1, state);
  EXPECT_EQ(there.Append(1, next), wanted);
}

// Truncation of a prompt: rows below the cut end inside the first decoder layer.
TEST(Sequences, ATruncatedPromptDoesNotDependOnItsChunks) {
  const std::vector<TokenId> tokens = SomeTokens(97);
  const int32_t cut = 97 - Tiny().info().window;
  const auto run_in = [&](size_t n_piece) {
    TinyRun run;
    std::vector<float> logits;
    std::span<const TokenId> rest = tokens;
    while (!rest.empty()) {
      const size_t n = std::min(n_piece, rest.size());
      const bool is_last = n == rest.size();
      const int32_t begin = 97 - static_cast<int32_t>(rest.size());
      const int32_t n_logits = std::max(0, begin + static_cast<int32_t>(n) - std::max(begin, cut));
      const Sequences::Outputs out =
          run.Run({{.tokens = rest.first(n), .decoder_begin = cut, .n_logits = n_logits}});
      logits.insert(logits.end(), out.logits.begin(), out.logits.end());
      rest = rest.subspan(n);
      if (is_last) {
        const std::vector<float> after = run.Append(0, SomeTokens(7, 50));
        logits.insert(logits.end(), after.begin(), after.end());
      }
    }
    return logits;
  };
  const std::vector<float> whole = run_in(97);
  for (size_t n_piece : {1, 7, 13, 16, 64, 90}) EXPECT_EQ(run_in(n_piece), whole) << n_piece;
}

// On a hit, encoder layers × (window - 1) replayed tokens rebuild every ring (spec model.md §4.4).
TEST(Sequences, ExactReplayEqualsNoCacheAtAll) {
  const std::vector<TokenId> tokens = SomeTokens(240);
  const ModelInfo& info = Tiny().info();
  ASSERT_EQ(info.n_exact_replay, 90);
  for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kExact}) {
    TinyRun run({.arithmetic = arithmetic});
    const int32_t cut = 240 - info.window;
    const auto with_cut = [&](int32_t n_replay) {
      run->ImportPrefix(1, run->ExportPrefix(0, 200));
      return run
          .Run({{.seq = 1,
                 .tokens = std::span(tokens).subspan(200),
                 .n_replay = n_replay,
                 .decoder_begin = cut,
                 .n_logits = info.window}})
          .logits;
    };
    const std::vector<float> cold =
        run.Run({{.tokens = tokens, .decoder_begin = cut, .n_logits = info.window}}).logits;
    const Sequences::Prefix cold_prefix = run->ExportPrefix(0, 240);
    EXPECT_EQ(with_cut(info.n_exact_replay), cold);
    EXPECT_EQ(run->ExportPrefix(1, 240).rows, cold_prefix.rows);
    EXPECT_NE(with_cut(80), cold);
    EXPECT_NE(with_cut(info.window), cold);
  }
}

// Pitfall 28: entries that a hit brought are read and not written, although replay passes by.
TEST(Sequences, ReplayedRowsNeverWriteSharedState) {
  const std::vector<TokenId> tokens = SomeTokens(140);
  for (int32_t hit : {64, 97, 100, 128}) {
    TinyRun run;
    run.Append(0, std::span(tokens).first(static_cast<size_t>(hit)));
    Sequences::Prefix prefix = run->ExportPrefix(0, hit);
    // Marks that a write would remove: scales stay, so that the values remain in range.
    for (std::vector<uint8_t>& rows : prefix.rows) {
      if (!rows.empty()) rows[0] ^= 0x11;
    }
    run->ImportPrefix(1, prefix);
    run.Run({{.seq = 1,
              .tokens = std::span(tokens).subspan(static_cast<size_t>(hit)),
              .n_replay = hit}});
    EXPECT_EQ(run->ExportPrefix(1, hit).rows, prefix.rows) << hit;
  }
}

// Pitfall 29: a slot that another sequence has used holds rows that nobody may read.
TEST(Sequences, NothingOfAnEarlierSequenceIsSeen) {
  const std::vector<TokenId> tokens = SomeTokens(90);
  TinyRun fresh;
  const std::vector<float> wanted = fresh.Append(0, tokens);
  TinyRun used;
  used.Append(0, SomeTokens(200, 60));
  used->Clear(0);
  EXPECT_EQ(used.Append(0, tokens), wanted);

  // The same behind a hit, whose windows begin where replay does.
  const auto after_hit = [&](TinyRun& run) {
    run->ImportPrefix(1, fresh->ExportPrefix(0, 64));
    return run
        .Run({{.seq = 1,
               .tokens = std::span(tokens).subspan(64),
               .n_replay = Tiny().info().window,
               .n_logits = 26}})
        .logits;
  };
  TinyRun clean;
  used.Append(1, SomeTokens(300, 61));
  EXPECT_EQ(after_hit(used), after_hit(clean));
}

// Pitfall 30: the same rows as a prompt, one by one, and as rows to verify.
TEST(Sequences, PromptDecodingAndVerificationAreOneComputation) {
  const std::vector<TokenId> tokens = SomeTokens(60);
  TinyRun prompt;
  const std::vector<float> wanted = prompt.Append(0, tokens);
  TinyRun decode;
  EXPECT_EQ(decode.AppendIn(1, 0, tokens), wanted);
  TinyRun verify;
  EXPECT_EQ(verify.AppendIn(6, 0, tokens), wanted);
}

TEST(Sequences, ARoomThatTheModelDoesNotHaveIsRefused) {
  ThreadTeam team(1);
  Stream stream{.team = team};
  const auto open = [&](const Sequences::Room& room) {
    return Sequences::Open(Tiny(), stream, room).status();
  };
  EXPECT_EQ(open({.n_seqs = 1, .n_context = 1025, .n_rows = 8}).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(open({.n_seqs = 0, .n_context = 10, .n_rows = 8}).ok());
  EXPECT_FALSE(open({.n_seqs = 1, .n_context = 10, .n_rows = 0}).ok());
}

TEST(Sequences, AStepThatCannotRunIsRefusedAndChangesNothing) {
  TinyRun run({.n_seqs = 1, .n_context = 64});
  const std::vector<TokenId> tokens = SomeTokens(20);
  const std::vector<float> wanted = run.Append(0, tokens);
  const auto refuses = [&](const Part& part, std::string_view text) {
    const Result<Sequences::Outputs> out = run->Run({&part, 1});
    ASSERT_FALSE(out.has_value()) << text;
    EXPECT_NE(out.error().message().find(text), std::string::npos) << out.error().message();
    EXPECT_EQ(run->length(0), 20);
  };
  const std::vector<TokenId> high = {TokenId(512)};
  const std::vector<TokenId> negative = {TokenId(-5)};
  const std::vector<TokenId> many = SomeTokens(45);
  refuses({.tokens = high}, "token 512 is not in [0, 512)");
  refuses({.tokens = negative}, "token -5");
  refuses({.tokens = many}, "65 tokens exceed the context of 64");
  refuses({}, "at least one new token");
  run->Clear(0);
  EXPECT_EQ(run.Append(0, tokens), wanted);
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
