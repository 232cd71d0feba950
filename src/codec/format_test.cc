#include "codec/format.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/dialect.h"
#include "codec/format/chatml/sample_format_test_impl.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec {
namespace {

using token::TextRules;

token::Vocabulary With(TextRules rules, const std::vector<std::string>& added) {
  auto vocabulary = token::Vocabulary::Parse(token::SampleTokenizer({}, added, rules));
  SLUICE_CHECK(vocabulary);
  return std::move(*vocabulary);
}

const std::vector<std::string> kChatml = {"<|im_start|>", "<|im_end|>", "<|endoftext|>"};

std::vector<std::string> ChatmlAnd(const std::vector<std::string>& more) {
  std::vector<std::string> added = kChatml;
  added.insert(added.end(), more.begin(), more.end());
  return added;
}

std::string NameOf(const Result<OwnedFormat>& format) {
  return format ? std::string(format->get().name()) : std::string(format.error().message());
}

TEST(MakeFormat, ChoosesByRulesControlTokensAndArchitecture) {
  EXPECT_EQ(NameOf(MakeFormat(With(TextRules::kSmollm, kChatml), {.architecture = "llama"})),
            "smollm2");
  EXPECT_EQ(NameOf(MakeFormat(With(TextRules::kSmollm, kChatml), {})), "smollm2");
  EXPECT_EQ(NameOf(MakeFormat(With(TextRules::kQwen2, ChatmlAnd({"<tool_call>"})),
                              {.architecture = "qwen2"})),
            "qwen2.5");
}

TEST(MakeFormat, RefusesWhatItDoesNotKnowWithTheListOfTheKnown) {
  const auto refusal = [](const Result<OwnedFormat>& format) {
    EXPECT_FALSE(format.has_value());
    EXPECT_EQ(format.error().code(), ErrorCode::kUnsupported);
    return std::string(format.error().message());
  };
  const std::string other =
      refusal(MakeFormat(With(TextRules::kSmollm, kChatml), {.architecture = "qwen3"}));
  EXPECT_NE(other.find("architecture qwen3"), std::string::npos) << other;
  EXPECT_NE(other.find("deepseek-v4.1, smollm2"), std::string::npos) << other;
  EXPECT_NE(other.find("--chat-format"), std::string::npos) << other;
  refusal(MakeFormat(With(TextRules::kQwen2, kChatml), {}));
  refusal(MakeFormat(With(TextRules::kQwen2, ChatmlAnd({"<tool_call>", "<think>"})), {}));
  refusal(MakeFormat(With(TextRules::kSmollm, {"<|im_start|>"}), {}));
}

TEST(MakeFormat, AnOperatorMayChooseOne) {
  EXPECT_EQ(NameOf(MakeFormat(With(TextRules::kQwen2, kChatml),
                              {.name = FormatName::kSmollm2, .architecture = "qwen3"})),
            "smollm2");
  EXPECT_EQ(
      NameOf(MakeFormat(With(TextRules::kSmollm, {"<|im_start|>"}), {.name = FormatName::kQwen25})),
      "the vocabulary has no <|im_end|>, which the format qwen2.5 needs");
  EXPECT_FALSE(MakeFormat(With(TextRules::kSmollm, kChatml), {.name = FormatName::kDeepseekV41})
                   .has_value());
}

class ChatmlPrepare : public testing::Test {
 protected:
  Result<Prepared> Ask(Api api, const std::string& body) {
    const PrepareContext context{.model = card_,
                                 .format = chatml::SampleFormat(chatml::Family::kSmollm2)};
    return Prepare(DialectOf(api), body, context);
  }
  const ModelCard card_{.name = "m", .other_names = {"old"}};
};

TEST_F(ChatmlPrepare, NoDefaultAsksForThoughtAndWhoAsksForItIsTold) {
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  const auto plain = Ask(Api::kChat, R"({"model":"m",)" + messages + "}");
  ASSERT_TRUE(plain.has_value());
  EXPECT_FALSE(plain->answer.thinking);
  EXPECT_TRUE(plain->ignored_fields.empty());
  const auto asked =
      Ask(Api::kChat, R"({"model":"old","thinking":{"type":"enabled"},)" + messages + "}");
  ASSERT_TRUE(asked.has_value());
  EXPECT_FALSE(asked->answer.thinking);
  EXPECT_EQ(asked->ignored_fields, std::vector<std::string>{"thinking"});
  EXPECT_EQ(*asked->generate.prompt, *plain->generate.prompt);
  const auto effort =
      Ask(Api::kResponses, R"({"model":"m","input":"hi","reasoning":{"effort":"high"}})");
  ASSERT_TRUE(effort.has_value());
  EXPECT_EQ(effort->ignored_fields, std::vector<std::string>{"reasoning"});
}

// At temperature 1 a small model soon writes what nobody can read; its makers say 0.2.
TEST_F(ChatmlPrepare, WhoAsksForNothingGetsWhatTheModelsMakersRecommend) {
  const auto plain =
      Ask(Api::kChat, R"({"model":"m","messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->generate.sampling.temperature, 0.2);
  EXPECT_EQ(plain->generate.sampling.top_p, 0.9);
  const auto asked = Ask(Api::kMessages, R"({"model":"m","max_tokens":9,"temperature":1,)"
                                         R"("messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->generate.sampling.temperature, 1);
  EXPECT_EQ(asked->generate.sampling.top_p, 0.9);
  const auto told = Ask(Api::kResponses, R"({"model":"m","input":"hi"})");
  ASSERT_TRUE(told.has_value());
  EXPECT_NE(told->answer.echo.find(R"("temperature":0.2)"), std::string::npos);
  const wire::SamplingParams qwen =
      Format(chatml::SampleFormat(chatml::Family::kQwen25)).sampling();
  EXPECT_EQ(qwen.top_k, 20);
  EXPECT_EQ(qwen.repetition_penalty, 1.05);
}

// Agents send the limits of the model that they are set up for.
TEST_F(ChatmlPrepare, AnOutputLimitAboveTheWholeContextIsWhatIsLeft) {
  const ModelCard card{.name = "m", .n_context = 100};
  const PrepareContext context{.model = card,
                               .format = chatml::SampleFormat(chatml::Family::kSmollm2)};
  const auto ask = [&](const std::string& n_max) {
    return Prepare(DialectOf(Api::kCompletions),
                   R"({"model":"m","prompt":"ab","max_tokens":)" + n_max + "}", context);
  };
  EXPECT_EQ(ask("32000")->generate.n_max, 98);
  EXPECT_EQ(ask("98")->generate.n_max, 98);
  EXPECT_EQ(ask("99").error().code(), ErrorCode::kContextLength);
}

TEST_F(ChatmlPrepare, BothEndTokensEndAnAnswer) {
  const auto prepared = Ask(Api::kCompletions, R"({"model":"m","prompt":"ab"})");
  ASSERT_TRUE(prepared.has_value());
  EXPECT_EQ(*prepared->generate.prompt, (std::vector<TokenId>{TokenId('a'), TokenId('b')}));
  ASSERT_EQ(prepared->generate.stop_ids.size(), 2u);
  EXPECT_EQ(prepared->generate.stop_ids[0], TokenId(258));
  EXPECT_EQ(prepared->generate.stop_ids[1], TokenId(256));
}

TEST_F(ChatmlPrepare, ASuffixIsRefused) {
  const auto prepared = Ask(Api::kCompletions, R"({"model":"m","prompt":"ab","suffix":"c"})");
  ASSERT_FALSE(prepared.has_value());
  EXPECT_EQ(prepared.error().param(), "suffix");
  EXPECT_EQ(prepared.error().message(),
            "`suffix` cannot be used: this model does not fill in the middle");
}

}  // namespace
}  // namespace sluice::codec
