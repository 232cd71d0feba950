#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "base/limits.h"
#include "codec/dialect.h"
#include "codec/inquiry.h"
#include "codec/sample_format_test_impl.h"
#include "codec/script_book.h"

namespace sluice::codec {
namespace {

const Dialect& Chat() { return Dialects()[0]; }

// Without thinking its prompt has 17 tokens besides the text: 7 of the system, 4 controls and the
// text's own.
std::string Body(const std::string& members, const std::string& text = "hello") {
  return R"({"model":"deepseek-flash","messages":[{"role":"system","content":"be kind"},)"
         R"({"role":"user","content":")" +
         text + "\"}]" + (members.empty() ? "" : "," + members) + "}";
}

constexpr const char* kPlain = R"("thinking":{"type":"disabled"})";

std::string PlainBody(const std::string& members) {
  return Body(kPlain + (members.empty() ? "" : "," + members));
}

std::string TextOf(const std::vector<TokenId>& ids) {
  std::string text;
  for (TokenId id : ids) text += SampleFormat().text(id);
  return text;
}

TEST(Prepare, ThePromptIsTheRenderedConversation) {
  ModelCard card{.name = "deepseek-flash"};
  Result<Prepared> prepared =
      Prepare(Chat(), Body(kPlain, "é"), {.model = card, .format = SampleFormat()});
  ASSERT_TRUE(prepared);
  EXPECT_EQ(TextOf(*prepared->generate.prompt),
            "<｜begin▁of▁sentence｜><｜System｜>be kind<｜User｜>é<｜Assistant｜></think>");
  EXPECT_EQ(prepared->generate.prompt->size(), 14u);
  EXPECT_EQ(prepared->answer.n_prompt, 14);
  EXPECT_EQ(prepared->generate.script, nullptr);
}

TEST(Prepare, C28AContextThatIsTooSmallIsNamedWithItsThreeNumbers) {
  // vllm#33418: "the message names the wrong cause".
  ModelCard card{.name = "deepseek-flash", .n_context = 24};  // the prompt has 17 tokens
  const PrepareContext context{.model = card, .format = SampleFormat()};
  EXPECT_TRUE(Prepare(Chat(), PlainBody(R"("max_tokens":7)"), context));
  Result<Prepared> sum = Prepare(Chat(), PlainBody(R"("max_tokens":8)"), context);
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code(), ErrorCode::kContextLength);
  EXPECT_EQ(sum.error().api_code(), "context_length_exceeded");
  EXPECT_EQ(
      sum.error().message(),
      "This model's maximum context length is 24 tokens. However, you requested 25 tokens (17 in "
      "the messages, 8 in the completion). Please reduce the length of the messages or "
      "completion.");
  card.n_context = 16;
  Result<Prepared> prompt = Prepare(Chat(), PlainBody(""), context);
  ASSERT_FALSE(prompt);
  EXPECT_NE(prompt.error().message().find("(17 in the messages, 0 in the completion)"),
            std::string_view::npos);
}

TEST(Prepare, C28TheDefaultLimitFitsIntoTheContextThatIsLeft) {
  ModelCard card{.name = "deepseek-flash", .n_context = 17};
  const PrepareContext context{.model = card, .format = SampleFormat()};
  EXPECT_EQ(Prepare(Chat(), PlainBody(""), context)->generate.n_max, 1);
  card.n_context = 117;
  EXPECT_EQ(Prepare(Chat(), PlainBody(""), context)->generate.n_max, 100);
  card.n_context = 1'000'000;
  EXPECT_EQ(Prepare(Chat(), Body(""), context)->generate.n_max, 65'536);
  EXPECT_EQ(Prepare(Chat(), PlainBody(""), context)->generate.n_max, 8'192);
  card.n_output_max = 500;
  EXPECT_EQ(Prepare(Chat(), Body(""), context)->generate.n_max, 500);
}

TEST(Prepare, AnImageIsRefusedWhereTheModelReadsTextOnly) {
  ModelCard card{.name = "deepseek-flash"};
  const PrepareContext context{.model = card, .format = SampleFormat()};
  const std::string body =
      R"({"model":"deepseek-flash","messages":[{"role":"user","content":[{"type":"text","text":)"
      R"("<｜deepseek_image｜>"},{"type":"image_url","image_url":{"url":"http://a/b"}}]}]})";
  Result<Prepared> refused = Prepare(Chat(), body, context);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param(), ".messages[0]");
  card.reads_images = true;
  Result<Prepared> prepared = Prepare(Chat(), body, context);
  ASSERT_TRUE(prepared);
  // What the client spelled is no image.
  ASSERT_EQ(prepared->images.size(), 1u);
  const TokenId mark = SampleFormat().control(deepseek_v41::Control::kImage);
  EXPECT_EQ((*prepared->generate.prompt)[static_cast<size_t>(prepared->images[0].pos)], mark);
  EXPECT_EQ(std::ranges::count(*prepared->generate.prompt, mark), 1);
}

TEST(Prepare, SoManyImagesAreAllowedAndNoMore) {
  const ModelCard card{.name = "deepseek-flash", .reads_images = true};
  const PrepareContext context{.model = card, .format = SampleFormat()};
  auto with_images = [&](int64_t n) {
    std::string body = R"({"model":"deepseek-flash","messages":[{"role":"user","content":[)";
    for (int64_t i = 0; i < n; ++i) {
      body += i > 0 ? "," : "";
      body += R"({"type":"image_url","image_url":{"url":"http://a"}})";
    }
    return Prepare(Chat(), body + "]}]}", context);
  };
  EXPECT_TRUE(with_images(limits::kMaxImages));
  EXPECT_FALSE(with_images(limits::kMaxImages + 1));
}

// Found by a fuzzer: the renderer ended the process.
TEST(Prepare, AJsonSchemaFormatWithoutASchemaIsAnyJson) {
  ModelCard card{.name = "deepseek-flash"};
  const PrepareContext context{.model = card, .format = SampleFormat()};
  for (const char* strict : {"", R"(,"strict":true)"}) {
    const std::string responses =
        R"({"model":"deepseek-flash","input":"x","text":{"format":{"type":"json_schema",)"
        R"("name":"p")" +
        std::string(strict) + "}}}";
    EXPECT_TRUE(Prepare(DialectOf(Api::kResponses), responses, context)) << strict;
    const std::string chat =
        PlainBody(R"("response_format":{"type":"json_schema","json_schema":{"name":"p")" +
                  std::string(strict) + "}}");
    EXPECT_TRUE(Prepare(Chat(), chat, context)) << strict;
  }
}

TEST(Prepare, WhatThisBuildCannotEnforceIsListed) {
  ModelCard card{.name = "deepseek-flash"};
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"a"}}])";
  auto ignored = [&](const std::string& members) {
    Result<Prepared> prepared =
        Prepare(Chat(), Body(members), {.model = card, .format = SampleFormat()});
    EXPECT_TRUE(prepared) << prepared.status().ToString();
    return prepared->ignored_fields;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ignored(""), Names());
  EXPECT_EQ(ignored(tools), Names());
  EXPECT_EQ(ignored(tools + R"(,"tool_choice":"none")"), Names());
  EXPECT_EQ(ignored(R"("tool_choice":"required")"), Names({"tool_choice"}));
  EXPECT_EQ(ignored(R"("tool_choice":"auto")"), Names());
  EXPECT_EQ(
      ignored("\"zz\":1," + tools + R"(,"tool_choice":"required","parallel_tool_calls":false)"),
      Names({"zz", "tool_choice", "parallel_tool_calls"}));
  EXPECT_EQ(ignored(kPlain + ("," + tools) + R"(,"tool_choice":"required")"), Names());
  EXPECT_EQ(ignored(R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
                    R"("schema":{"type":"object"}}})"),
            Names({"response_format"}));
  EXPECT_EQ(ignored(R"("response_format":{"type":"text"})"), Names());
  EXPECT_EQ(ignored(R"("store":true)"), Names({"store"}));
  EXPECT_EQ(ignored(R"("store":false)"), Names());
}

TEST(Prepare, ARequestThatIsRefusedTakesNoScriptLine) {
  ModelCard card{.name = "deepseek-flash", .n_context = 24};
  Result<ScriptBook> book = ScriptBook::Parse("\"one\"\n\"two\"", SampleFormat().n_tokens());
  ASSERT_TRUE(book);
  PrepareContext context{.model = card, .format = SampleFormat(), .script = &*book};
  EXPECT_FALSE(Prepare(Chat(), PlainBody(R"("temperature":3)"), context));
  EXPECT_FALSE(Prepare(Chat(), PlainBody(R"("max_tokens":8)"), context));
  Result<Prepared> prepared = Prepare(Chat(), PlainBody(R"("max_tokens":1,"n":3)"), context);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(TextOf(prepared->generate.script->ids), "one");
  EXPECT_EQ(TextOf(Prepare(Chat(), PlainBody(""), context)->generate.script->ids), "two");
}

TEST(Prepare, AScriptedContextRefusalTellsWhatClientsParse) {
  ModelCard card{.name = "deepseek-flash", .n_context = 100};
  Result<ScriptBook> book =
      ScriptBook::Parse(R"({"refuse": "context"})", SampleFormat().n_tokens());
  Result<Prepared> prepared =
      Prepare(Chat(), PlainBody(""), {.model = card, .format = SampleFormat(), .script = &*book});
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
      SampleFormat().n_tokens());
  ASSERT_TRUE(book);
  PrepareContext context{.model = card, .format = SampleFormat(), .script = &*book};
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"a"}}])";
  EXPECT_EQ(TextOf(Prepare(Chat(), Body(tools), context)->generate.script->ids), "tool");
  Result<Prepared> plain = Prepare(
      Chat(), Body(tools + R"(,"tool_choice":"none","thinking":{"type":"disabled"})"), context);
  EXPECT_EQ(TextOf(plain->generate.script->ids), "text");
}

TEST(Dialects, EachApiHasADialectWithPathsOfItsOwn) {
  std::set<std::string> paths;
  size_t n_paths = 0;
  for (const Dialect& dialect : Dialects()) {
    EXPECT_EQ(&DialectOf(dialect.api), &dialect);
    EXPECT_FALSE(dialect.paths.empty()) << dialect.name;
    n_paths += dialect.paths.size();
    paths.insert(dialect.paths.begin(), dialect.paths.end());
  }
  for (const Inquiry& inquiry : Inquiries()) {
    n_paths += inquiry.paths.size();
    paths.insert(inquiry.paths.begin(), inquiry.paths.end());
  }
  EXPECT_EQ(paths.size(), n_paths);
  EXPECT_STREQ(DialectOf(Api::kChat).name, "chat");
  EXPECT_EQ(DialectOf(Api::kChat).paths.size(), 3u);
}

// Agents of that API wait for their own status (spec script-format.md §1).
TEST(Dialects, OverloadHasAStatusOfItsOwnOnMessages) {
  EXPECT_EQ(HttpStatusOf(DialectOf(Api::kMessages), ErrorCode::kOverloaded), 529);
  EXPECT_EQ(HttpStatusOf(DialectOf(Api::kChat), ErrorCode::kOverloaded), 503);
  EXPECT_EQ(HttpStatusOf(DialectOf(Api::kMessages), ErrorCode::kRateLimited), 429);
}

}  // namespace
}  // namespace sluice::codec
