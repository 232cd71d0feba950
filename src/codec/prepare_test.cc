#include <gtest/gtest.h>

#include <string>

#include "codec/dialect.h"
#include "codec/script_book.h"

namespace sluice::codec {
namespace {

const Dialect& Chat() { return Dialects()[0]; }

std::string Body(const std::string& members, const std::string& text = "hello") {
  return R"({"model":"deepseek-flash","messages":[{"role":"system","content":"be kind"},)"
         R"({"role":"user","content":")" +
         text + "\"}]" + (members.empty() ? "" : "," + members) + "}";
}

std::string TextOf(const std::vector<TokenId>& ids) {
  std::string text;
  for (TokenId id : ids) text += static_cast<char>(id.value);
  return text;
}

TEST(Prepare, ThePromptIsTheTextOfAllMessagesOneTokenPerByte) {
  ModelCard card{.name = "deepseek-flash"};
  Result<Prepared> prepared = Prepare(Chat(), Body("", "é"), {.model = card});
  ASSERT_TRUE(prepared);
  EXPECT_EQ(TextOf(*prepared->generate.prompt), "be kind\né");
  EXPECT_EQ(prepared->generate.prompt->size(), 10u);
  EXPECT_EQ(prepared->answer.n_prompt, 10);
  EXPECT_EQ(prepared->generate.script, nullptr);
}

TEST(Prepare, AContextThatIsTooSmallIsNamedWithItsThreeNumbers) {
  // vllm#33418: "the message names the wrong cause".
  ModelCard card{.name = "deepseek-flash", .n_context = 20};  // the prompt has 13 tokens
  EXPECT_TRUE(Prepare(Chat(), Body(R"("max_tokens":7)"), {.model = card}));
  Result<Prepared> sum = Prepare(Chat(), Body(R"("max_tokens":8)"), {.model = card});
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code(), ErrorCode::kContextLength);
  EXPECT_EQ(sum.error().api_code(), "context_length_exceeded");
  EXPECT_EQ(
      sum.error().message(),
      "This model's maximum context length is 20 tokens. However, you requested 21 tokens (13 in "
      "the messages, 8 in the completion). Please reduce the length of the messages or "
      "completion.");
  card.n_context = 12;
  Result<Prepared> prompt = Prepare(Chat(), Body(""), {.model = card});
  ASSERT_FALSE(prompt);
  EXPECT_NE(prompt.error().message().find("(13 in the messages, 0 in the completion)"),
            std::string_view::npos);
}

TEST(Prepare, TheDefaultLimitFitsIntoTheContextThatIsLeft) {
  ModelCard card{.name = "deepseek-flash", .n_context = 13};
  EXPECT_EQ(Prepare(Chat(), Body(""), {.model = card})->generate.n_max, 1);
  card.n_context = 113;
  EXPECT_EQ(Prepare(Chat(), Body(""), {.model = card})->generate.n_max, 100);
  card.n_context = 1'000'000;
  EXPECT_EQ(Prepare(Chat(), Body(""), {.model = card})->generate.n_max, 65'536);
  EXPECT_EQ(Prepare(Chat(), Body(""), {.model = card, .default_thinking = false})->generate.n_max,
            8'192);
  card.n_output_max = 500;
  EXPECT_EQ(Prepare(Chat(), Body(""), {.model = card})->generate.n_max, 500);
}

TEST(Prepare, WhatThisBuildCannotEnforceIsListed) {
  ModelCard card{.name = "deepseek-flash"};
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"a"}}])";
  auto ignored = [&](const std::string& members) {
    Result<Prepared> prepared = Prepare(Chat(), Body(members), {.model = card});
    EXPECT_TRUE(prepared) << prepared.status().ToString();
    return prepared->ignored_fields;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ignored(""), Names());
  EXPECT_EQ(ignored(tools), Names({"tools"}));
  EXPECT_EQ(ignored(tools + R"(,"tool_choice":"none")"), Names());
  EXPECT_EQ(
      ignored("\"zz\":1," + tools + R"(,"tool_choice":"required","parallel_tool_calls":false)"),
      Names({"zz", "tools", "tool_choice", "parallel_tool_calls"}));
  EXPECT_EQ(ignored(R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
                    R"("schema":{"type":"object"}}})"),
            Names({"response_format"}));
  EXPECT_EQ(ignored(R"("response_format":{"type":"text"})"), Names());
}

TEST(Prepare, ARequestThatIsRefusedTakesNoScriptLine) {
  ModelCard card{.name = "deepseek-flash", .n_context = 20};
  Result<ScriptBook> book = ScriptBook::Parse("\"one\"\n\"two\"", card.n_vocabulary);
  ASSERT_TRUE(book);
  PrepareContext context{.model = card, .script = &*book};
  EXPECT_FALSE(Prepare(Chat(), Body(R"("temperature":3)"), context));
  EXPECT_FALSE(Prepare(Chat(), Body(R"("max_tokens":8)"), context));
  Result<Prepared> prepared = Prepare(Chat(), Body(R"("max_tokens":1,"n":3)"), context);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(TextOf(prepared->generate.script->ids), "one");
  EXPECT_EQ(TextOf(Prepare(Chat(), Body(""), context)->generate.script->ids), "two");
}

TEST(Prepare, AScriptedContextRefusalTellsWhatClientsParse) {
  ModelCard card{.name = "deepseek-flash", .n_context = 100};
  Result<ScriptBook> book = ScriptBook::Parse(R"({"refuse": "context"})", card.n_vocabulary);
  Result<Prepared> prepared = Prepare(Chat(), Body(""), {.model = card, .script = &*book});
  ASSERT_TRUE(prepared);
  EXPECT_EQ(prepared->generate.script->refuse.code(), ErrorCode::kContextLength);
  EXPECT_EQ(prepared->generate.script->refuse.message(),
            "prompt is too long: 101 tokens > 100 maximum");
}

TEST(Prepare, ConditionsOfAScriptSeeTheDecodedRequest) {
  ModelCard card{.name = "deepseek-flash"};
  Result<ScriptBook> book = ScriptBook::Parse(
      "{\"when\": {\"tools\": true, \"api\": \"chat\"}, \"out\": \"tool\", \"times\": "
      "\"always\"}\n{\"when\": {\"last\": \"hello\"}, \"out\": \"r</think>text\"}",
      card.n_vocabulary);
  ASSERT_TRUE(book);
  PrepareContext context{.model = card, .script = &*book};
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"a"}}])";
  EXPECT_EQ(TextOf(Prepare(Chat(), Body(tools), context)->generate.script->ids), "tool");
  Result<Prepared> plain = Prepare(
      Chat(), Body(tools + R"(,"tool_choice":"none","thinking":{"type":"disabled"})"), context);
  EXPECT_EQ(TextOf(plain->generate.script->ids), "text");
}

TEST(Dialects, EachStandsAtItsPlaceAndIsServedOnItsPaths) {
  EXPECT_STREQ(Chat().name, "chat");
  EXPECT_EQ(Chat().paths.size(), 3u);
  for (size_t i = 0; i < Dialects().size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(Dialects()[i].api), i) << Dialects()[i].name;
    EXPECT_FALSE(Dialects()[i].paths.empty()) << Dialects()[i].name;
  }
}

}  // namespace
}  // namespace sluice::codec
