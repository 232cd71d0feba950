#include "codec/prompt_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "codec/sample_format_test_impl.h"

namespace sluice::codec {
namespace {

PromptScores SpecOf(std::string_view bytes, int32_t n_ours = 0) {
  std::vector<TokenId> ids;
  for (const char c : bytes) ids.emplace_back(static_cast<unsigned char>(c));
  return {.prompt = std::move(ids), .n_ours = n_ours, .in_echo = true, .n_top = {}};
}

// The joined text, with scores in pieces of n; each piece is whole characters.
std::string TextIn(size_t n, const PromptScores& spec) {
  PromptReader reader(SampleFormat().vocabulary(), spec);
  const std::vector<wire::TokenLogprob> scores(spec.prompt.size() - 1);
  std::string text;
  int32_t n_tokens = 0;
  size_t at = 0;
  do {
    const size_t n_now = std::min(n, scores.size() - at);
    const PromptPiece piece = reader.Read(std::span(scores).subspan(at, n_now));
    for (const PromptToken& token : piece.tokens) {
      EXPECT_EQ(token.pos, n_tokens);
      EXPECT_EQ(token.score == nullptr, n_tokens == 0);
      ++n_tokens;
    }
    text += piece.text;
    at += n_now;
  } while (at < scores.size());
  EXPECT_EQ(n_tokens, std::ssize(spec.prompt));
  return text;
}

TEST(PromptReader, TheTextDoesNotDependOnHowTheScoresAreCut) {
  for (const auto& [bytes, text] :
       {std::pair("a\xC3\xA9\xF0\x9F\x99\x82z", "a\xC3\xA9\xF0\x9F\x99\x82z"),
        std::pair("a\xF0\x9F", "a\xEF\xBF\xBD"), std::pair("\xA9z", "\xEF\xBF\xBDz"),
        std::pair("a", "a")}) {
    for (const size_t n : {1, 2, 3, 100}) EXPECT_EQ(TextIn(n, SpecOf(bytes)), text) << n;
  }
}

TEST(PromptReader, WhatStandsInFrontOfTheClientsTextIsATokenWithoutText) {
  EXPECT_EQ(TextIn(1, SpecOf("\x01"
                             "bc",
                             1)),
            "bc");
}

TEST(PromptReader, AlternativesHaveTextsAndUnknownTokensNone) {
  const PromptScores spec = SpecOf("ab");
  PromptReader reader(SampleFormat().vocabulary(), spec);
  std::vector<wire::TokenLogprob> scores(1);
  scores[0].alternatives = {{.token = TokenId('x'), .logprob = -1},
                            {.token = TokenId(1 << 20), .logprob = -2}};
  EXPECT_EQ(reader.Read({}).tokens.size(), 1u);
  const PromptPiece piece = reader.Read(scores);
  ASSERT_EQ(piece.tokens.size(), 1u);
  EXPECT_EQ(piece.tokens[0].text, "b");
  EXPECT_EQ(
      std::vector<std::string_view>(piece.tokens[0].others.begin(), piece.tokens[0].others.end()),
      (std::vector<std::string_view>{"x", ""}));
}

}  // namespace
}  // namespace sluice::codec
