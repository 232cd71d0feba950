#include "codec/dialect/completions/decode.h"
#include "codec/sample_format_test_impl.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::codec::completions {
namespace {

const ModelCard kCard{.name = "deepseek-flash"};

Result<DecodedRequest> DecodeWith(const std::string& members, bool strict = false) {
  return Decode(R"({"model":"deepseek-flash",)" + members + "}",
                {.model = kCard, .format = SampleFormat(), .strict = strict});
}

// Expects a 400 that names `field`.
std::string Refusal(const Result<DecodedRequest>& result, const std::string& field) {
  EXPECT_FALSE(result) << field;
  if (result) return "";
  EXPECT_EQ(RowOf(result.error().code()).http_status, 400) << result.error().ToString();
  EXPECT_NE(result.error().ToString().find(field), std::string::npos) << result.error().ToString();
  return std::string(result.error().message());
}

TEST(CompletionsDecode, APromptIsTakenAsItIs) {
  for (const char* prompt : {R"("once \n")", R"(["once \n"])"}) {
    Result<DecodedRequest> request = DecodeWith(R"("prompt":)" + std::string(prompt));
    ASSERT_TRUE(request) << request.status().ToString();
    ASSERT_TRUE(request->conversation.raw);
    EXPECT_EQ(request->conversation.raw->text, "once \n");
    EXPECT_FALSE(request->conversation.raw->suffix);
    EXPECT_TRUE(request->conversation.messages.empty());
    EXPECT_FALSE(request->conversation.thinking);
    EXPECT_FALSE(request->answer.thinking);
  }
}

TEST(CompletionsDecode, TokenIdsAreTakenAsTheyAre) {
  for (const char* prompt : {"[0,255,7]", "[[0,255,7]]"}) {
    Result<DecodedRequest> request = DecodeWith(R"("prompt":)" + std::string(prompt));
    ASSERT_TRUE(request) << request.status().ToString();
    EXPECT_EQ(request->conversation.raw->ids,
              (std::vector<TokenId>{TokenId(0), TokenId(255), TokenId(7)}));
  }
}

TEST(CompletionsDecode, PromptsThatCannotBeAnsweredAreRefused) {
  for (const char* prompt : {"5", "{}", "true", "[]", "[[]]", "[true]", "[{}]", "[277]", "[-1]",
                             "[1.5]", "[1,\"a\"]", "[[1,\"a\"]]", "[\"a\",\"b\"]", "[[1],[2]]"}) {
    Refusal(DecodeWith(R"("prompt":)" + std::string(prompt)), "prompt");
  }
  Refusal(DecodeWith(R"("prompt":null)"), "prompt");
  Refusal(DecodeWith(R"("n":1)"), "prompt");
  EXPECT_NE(Refusal(DecodeWith(R"("prompt":["a","b","c"])"), "prompt").find("3 prompts"),
            std::string::npos);
}

TEST(CompletionsDecode, ASuffixAsksToFillTheMiddle) {
  EXPECT_EQ(DecodeWith(R"("prompt":"a","suffix":"b")")->conversation.raw->suffix, "b");
  EXPECT_FALSE(DecodeWith(R"("prompt":"a","suffix":"")")->conversation.raw->suffix);
  Refusal(DecodeWith(R"("prompt":[1],"suffix":"b")"), "suffix");
  Refusal(DecodeWith(R"("prompt":"a","suffix":5)"), "suffix");
}

TEST(CompletionsDecode, AnEchoIsThePromptAsText) {
  EXPECT_EQ(DecodeWith(R"("prompt":"a","echo":true)")->answer.echo, "a");
  EXPECT_EQ(DecodeWith(R"("prompt":"a","echo":false)")->answer.echo, "");
  EXPECT_EQ(DecodeWith(R"("prompt":[97,240,98],"echo":true)")->answer.echo, "a\uFFFDb");
  Refusal(DecodeWith(R"("prompt":"a","echo":true,"suffix":"b")"), "echo");
}

TEST(CompletionsDecode, AnEchoWithLogprobsAsksForScores) {
  Result<DecodedRequest> request = DecodeWith(R"("prompt":"a","echo":true,"logprobs":3)");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_TRUE(request->answer.prompt_scores.in_echo);
  EXPECT_FALSE(request->answer.prompt_scores.n_top);
  EXPECT_EQ(request->answer.echo, "") << "it comes token by token";
  EXPECT_EQ(request->sampling.n_prompt_logprobs, 3);
  EXPECT_EQ(request->sampling.n_min, 1) << "one token is cut off by lm-eval";
  for (const char* plain : {R"("prompt":"a","echo":true)", R"("prompt":"a","logprobs":3)"}) {
    EXPECT_FALSE(DecodeWith(plain)->sampling.n_prompt_logprobs) << plain;
    EXPECT_EQ(DecodeWith(plain)->sampling.n_min, 0) << plain;
  }
}

TEST(CompletionsDecode, PromptLogprobsAreAListOfTheirOwn) {
  Result<DecodedRequest> request =
      DecodeWith(R"("prompt":"a","echo":true,"logprobs":3,"prompt_logprobs":5)");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(request->answer.prompt_scores.n_top, 5);
  EXPECT_EQ(request->answer.n_top_logprobs, 3);
  EXPECT_EQ(request->sampling.n_prompt_logprobs, 5);
  EXPECT_EQ(DecodeWith(R"("prompt":"a","prompt_logprobs":0)")->sampling.n_prompt_logprobs, 0);
  EXPECT_FALSE(DecodeWith(R"("prompt":"a","prompt_logprobs":null)")->sampling.n_prompt_logprobs);
  for (const char* bad : {"-1", "21", "true", "\"1\"", "1.5"}) {
    Refusal(DecodeWith(R"("prompt":"a","prompt_logprobs":)" + std::string(bad)), "prompt_logprobs");
  }
  Refusal(DecodeWith(R"("prompt":"a","prompt_logprobs":1,"stream":true)"), "stream");
}

TEST(CompletionsDecode, NothingIsGeneratedOnlyWhereThePromptIsScored) {
  for (const char* scored : {R"("echo":true,"logprobs":0)", R"("prompt_logprobs":0)"}) {
    Result<DecodedRequest> request =
        DecodeWith(R"("prompt":"a","max_tokens":0,)" + std::string(scored));
    ASSERT_TRUE(request) << request.status().ToString();
    EXPECT_EQ(request->n_max_asked, 0);
    EXPECT_EQ(request->sampling.n_min, 0);
  }
  for (const char* unscored :
       {R"("echo":true)", R"("logprobs":1)", R"("echo":false,"logprobs":1)"}) {
    Refusal(DecodeWith(R"("prompt":"a","max_tokens":0,)" + std::string(unscored)), "max_tokens");
  }
}

TEST(CompletionsDecode, NumbersAreInRange) {
  Result<DecodedRequest> request =
      DecodeWith(R"("prompt":"a","logprobs":20,"n":16,"best_of":16,"max_tokens":5,"seed":3)");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_TRUE(request->answer.logprobs && request->sampling.logprobs);
  EXPECT_EQ(request->answer.n_top_logprobs, 20);
  EXPECT_EQ(request->answer.n_choices, 16);
  EXPECT_EQ(request->n_max_asked, 5);
  EXPECT_EQ(request->sampling.seed, 3u);
  EXPECT_TRUE(DecodeWith(R"("prompt":"a","logprobs":0)")->answer.logprobs);
  EXPECT_FALSE(DecodeWith(R"("prompt":"a")")->answer.logprobs);
  Refusal(DecodeWith(R"("prompt":"a","logprobs":21)"), "logprobs");
  Refusal(DecodeWith(R"("prompt":"a","logprobs":true)"), "logprobs");
  Refusal(DecodeWith(R"("prompt":"a","n":17)"), "n");
  Refusal(DecodeWith(R"("prompt":"a","best_of":2)"), "best_of");
  Refusal(DecodeWith(R"("prompt":"a","max_tokens":0)"), "max_tokens");
  Refusal(DecodeWith(R"("prompt":"a","temperature":2.5)"), "temperature");
  Refusal(DecodeWith(R"("prompt":"a","logit_bias":{"277":1})"), "logit_bias");
  request = DecodeWith(R"("prompt":"a","min_p":0.5,"repetition_penalty":1.5,"max_tokens":5,)"
                       R"("min_tokens":5,"stop_token_ids":[7])");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(request->sampling.min_p, 0.5);
  EXPECT_EQ(request->sampling.repetition_penalty, 1.5);
  EXPECT_EQ(request->sampling.n_min, 5);
  EXPECT_EQ(request->stop_ids, std::vector<TokenId>{TokenId(7)});
  Refusal(DecodeWith(R"("prompt":"a","max_tokens":5,"min_tokens":6)"), "min_tokens");
  Refusal(DecodeWith(R"("prompt":"a","stop_token_ids":[277])"), "stop_token_ids");
}

TEST(CompletionsDecode, AnUnknownModelIsNotFound) {
  Result<DecodedRequest> request =
      Decode(R"({"model":"gpt-9","prompt":"a"})", {.model = kCard, .format = SampleFormat()});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code(), ErrorCode::kModelNotFound);
  EXPECT_EQ(request.error().param(), "model");
}

TEST(CompletionsDecode, StreamOptionsNeedAStream) {
  EXPECT_TRUE(DecodeWith(R"("prompt":"a","stream":true,"stream_options":{"include_usage":true})")
                  ->answer.include_usage);
  Refusal(DecodeWith(R"("prompt":"a","stream_options":{})"), "stream_options");
}

TEST(CompletionsDecode, UnknownFieldsAreListedOrRefused) {
  EXPECT_EQ(DecodeWith(R"("prompt":"a","messages":[])")->ignored_fields,
            std::vector<std::string>{"messages"});
  Refusal(DecodeWith(R"("prompt":"a","messages":[])", /*strict=*/true), "messages");
}

}  // namespace
}  // namespace sluice::codec::completions
