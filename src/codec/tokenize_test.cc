#include "codec/tokenize.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "codec/cut_format_test_impl.h"

namespace sluice::codec {
namespace {

using nlohmann::json;

class TokenizeTest : public testing::Test {
 protected:
  PrepareContext Context() const { return {.model = card_, .format = CutFormat()}; }
  json Tokens(const std::string& body) const {
    const Result<InquiryAnswer> answer = Tokenize(DialectOf(Api::kChat), body, Context());
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().message());
    return answer ? json::parse(answer->body) : json();
  }
  // "param: message" of a refusal.
  std::string Refusal(const std::string& body, decltype(&Tokenize) inquire = &Tokenize) const {
    const Result<InquiryAnswer> answer = inquire(DialectOf(Api::kChat), body, Context());
    if (answer) return "accepted: " + answer->body;
    return std::string(answer.error().param()) + ": " + std::string(answer.error().message());
  }

  ModelCard card_{.name = "deepseek-flash", .n_context = 64};
};

TEST_F(TokenizeTest, ATextIsWhatCompletionsWouldReadUnlessItIsToStandAlone) {
  const json with = Tokens(R"({"prompt":"Hello world"})");
  const auto prepared = Prepare(DialectOf(Api::kCompletions),
                                R"({"model":"deepseek-flash","prompt":"Hello world"})", Context());
  ASSERT_TRUE(prepared);
  std::vector<int32_t> ids;
  for (const TokenId id : *prepared->generate.prompt) ids.push_back(id.value);
  EXPECT_EQ(with["tokens"], json(ids));
  EXPECT_EQ(with["count"], ids.size());
  EXPECT_EQ(with["max_model_len"], 64);
  EXPECT_TRUE(with["token_strs"].is_null());
  const json alone = Tokens(R"({"prompt":"Hello world","add_special_tokens":false})");
  ids.erase(ids.begin());
  EXPECT_EQ(alone["tokens"], json(ids));
}

TEST_F(TokenizeTest, TokensAreNamedAsTheTokenizersFileNamesThem) {
  const json got =
      Tokens(R"({"prompt":" a\n<｜User｜>","add_special_tokens":true,"return_token_strs":true})");
  EXPECT_EQ(got["token_strs"].size(), got["count"]);
  EXPECT_EQ(got["token_strs"][0], "<｜begin▁of▁sentence｜>");
  EXPECT_EQ(got["token_strs"][1], "Ġa");
  std::string all;
  for (const json& name : got["token_strs"]) all += name.get<std::string>();
  EXPECT_NE(all.find("Ċ"), std::string::npos);
  // What a client spells is text.
  EXPECT_EQ(all.find("<｜User｜>"), std::string::npos);
}

TEST_F(TokenizeTest, MessagesAreThePromptOfChatWhateverItsLength) {
  const std::string chat = R"("messages":[{"role":"user","content":"hi"}],)"
                           R"("thinking":{"type":"disabled"})";
  const auto prepared =
      Prepare(DialectOf(Api::kChat), R"({"model":"deepseek-flash",)" + chat + "}", Context());
  ASSERT_TRUE(prepared);
  const json got = Tokens("{" + chat + R"(,"add_generation_prompt":true,"prompt":null})");
  EXPECT_EQ(got["count"], prepared->answer.n_prompt);
  const std::string many = R"({"messages":[{"role":"user","content":")" + std::string(400, '.') +
                           "a b c d e f g h i j k l\"}]}";
  card_.n_context = 8;
  EXPECT_GT(Tokens(many)["count"], 8);
  EXPECT_EQ(Tokens(many)["max_model_len"], 8);
}

TEST_F(TokenizeTest, RefusalsNameTheFieldAndWhatIsAllowed) {
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(Refusal("{"), "invalid JSON request");
  has(Refusal("[]"), "must be a JSON object");
  has(Refusal("{}"), "prompt: invalid request body: missing field `prompt`");
  has(Refusal(R"({"prompt":["a"]})"), "prompt: invalid request body: `prompt` must be a string");
  has(Refusal(R"({"prompt":"a",)" + messages + "}"), "prompt: only one of");
  has(Refusal(R"({"prompt":"a","model":"x"})"), "model: The supported API model names");
  has(Refusal(R"({"prompt":"a","add_special_tokens":1})"), "add_special_tokens: ");
  has(Refusal("{" + messages + R"(,"model":"x"})"), "model: The supported API model names");
  has(Refusal("{" + messages + R"(,"add_special_tokens":true})"), "add_special_tokens: ");
  has(Refusal("{" + messages + R"(,"add_generation_prompt":false})"), "add_generation_prompt: ");
  has(Refusal("{" + messages + R"(,"continue_final_message":true})"), "continue_final_message: ");
  has(Refusal(R"({"messages":[{"role":"nobody","content":"hi"}]})"), "role");
}

TEST_F(TokenizeTest, UnknownFieldsAreListedOrRefused) {
  for (const std::string body :
       {R"({"prompt":"a","foo":1})", R"({"messages":[{"role":"user","content":"a"}],"foo":1})"}) {
    PrepareContext context = Context();
    const auto answer = Tokenize(DialectOf(Api::kChat), body, context);
    ASSERT_TRUE(answer) << body;
    EXPECT_EQ(answer->ignored_fields, std::vector<std::string>{"foo"}) << body;
    context.strict = true;
    EXPECT_FALSE(Tokenize(DialectOf(Api::kChat), body, context)) << body;
  }
}

TEST_F(TokenizeTest, DetokenizeIsTheWayBackAndBoundsItsIds) {
  const json tokens = Tokens(R"({"prompt":"wörld 🙂\n","add_special_tokens":false})")["tokens"];
  const auto text = [this](const std::string& list) {
    const auto answer = Detokenize(DialectOf(Api::kChat), R"({"tokens":)" + list + "}", Context());
    return answer ? json::parse(answer->body)["prompt"].get<std::string>()
                  : std::string(answer.error().message());
  };
  EXPECT_EQ(text(tokens.dump()), "wörld 🙂\n");
  EXPECT_EQ(text("[]"), "");
  // Half a character.
  const json half = Tokens(R"({"prompt":"🙂","add_special_tokens":false})")["tokens"];
  ASSERT_GT(half.size(), 1u);
  EXPECT_EQ(text(json::array({half[0]}).dump()), "\uFFFD");

  EXPECT_NE(Refusal("{}", &Detokenize).find("tokens: invalid request body: missing field `tokens`"),
            std::string::npos);
  for (const char* bad : {"-1", "4096", "1.5", "\"1\"", "null", "[1]", "18446744073709551615"}) {
    const std::string refusal = Refusal(R"({"tokens":[0,)" + std::string(bad) + "]}", &Detokenize);
    EXPECT_NE(refusal.find("tokens: invalid request body: `tokens[1]` must be a token id from 0 "
                           "to 4095, not"),
              std::string::npos)
        << refusal;
  }
  const std::string many = json(std::vector<int>(65, 1)).dump();
  EXPECT_EQ(text(many), "`tokens` has 65 ids, at most 64 are allowed, the model's context");
}

}  // namespace
}  // namespace sluice::codec
