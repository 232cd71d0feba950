#include "codec/dialect/completions/encode.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::codec::completions {
namespace {

using nlohmann::json;

AnswerSpec Spec(bool is_stream) {
  AnswerSpec spec;
  spec.model = "deepseek-flash";
  spec.thinking = false;
  spec.start = OutputStart::kContentContinued;
  spec.stream = is_stream;
  return spec;
}

const AnswerIdentity kIdentity{
    .id = "abc", .created = {1'700'000'000'000'000'000}, .fingerprint = "fp"};
const wire::Usage kUsage{.n_prompt = 5, .n_cached = 2, .n_completion = 3};

constexpr const char* kHead = R"({"id":"cmpl-abc","object":"text_completion","created":1700000000,)"
                              R"("model":"deepseek-flash","system_fingerprint":"fp",)";
constexpr const char* kUsageText =
    R"({"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,)"
    R"("prompt_tokens_details":{"cached_tokens":2},"prompt_cache_hit_tokens":2,)"
    R"("prompt_cache_miss_tokens":3})";

OutputEvent Text(std::string_view text) { return {.kind = OutputKind::kContent, .text = text}; }

std::string Play(const AnswerSpec& spec, std::string_view text) {
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, kUsage, out);
  encoder.OnEvent(0, Text(text), out);
  encoder.End(0, {.finish = Finish::kLength},
              spec.stream && !spec.include_usage ? &kUsage : nullptr, out);
  encoder.Finish(kUsage, out);
  return out;
}

TEST(CompletionsEncode, StreamsTheDocumentedFrames) {
  EXPECT_EQ(Play(Spec(true), "a\"\n"),
            std::string("data: ") + kHead +
                R"("choices":[{"index":0,"text":"a\"\n","logprobs":null,"finish_reason":null}]})" +
                "\n\ndata: " + kHead +
                R"("choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length"}],)" +
                "\"usage\":" + kUsageText + "}\n\ndata: [DONE]\n\n");
}

// Case C27: a usage chunk of its own has no choices, and its numbers are those of a whole answer.
TEST(CompletionsEncode, C27TheUsageChunkHasNoChoices) {
  AnswerSpec spec = Spec(true);
  spec.include_usage = true;
  const std::string out = Play(spec, "a");
  EXPECT_NE(out.find(std::string("data: ") + kHead + "\"choices\":[],\"usage\":" + kUsageText +
                     "}\n\ndata: [DONE]\n\n"),
            std::string::npos);
  size_t n_null = 0;
  for (size_t at = 0; (at = out.find("\"usage\":null", at)) != std::string::npos; ++at) ++n_null;
  EXPECT_EQ(n_null, 2u);
  EXPECT_EQ(json::parse(Play(Spec(false), "a"))["usage"], json::parse(kUsageText));
}

TEST(CompletionsEncode, AnswersWhole) {
  EXPECT_EQ(Play(Spec(false), "ab"),
            std::string(kHead) +
                R"("choices":[{"index":0,"text":"ab","logprobs":null,"finish_reason":"length"}],)" +
                "\"usage\":" + kUsageText + "}");
}

TEST(CompletionsEncode, AnEchoComesFirst) {
  AnswerSpec spec = Spec(false);
  spec.echo = "once ";
  EXPECT_EQ(json::parse(Play(spec, "upon"))["choices"][0]["text"], "once upon");
  spec.stream = true;
  const std::string out = Play(spec, "upon");
  EXPECT_LT(out.find("\"once \""), out.find("\"upon\""));
}

TEST(CompletionsEncode, LogprobsSayWhereEachTokenBegins) {
  AnswerSpec spec = Spec(false);
  spec.logprobs = true;
  spec.n_top_logprobs = 1;
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, kUsage, out);
  const TokenText::Alternative other{.text = "z", .logprob = -2.0f};
  const std::vector<TokenText> first = {
      {.text = "é", .logprob = -0.5f, .alternatives = {&other, 1}}};
  const std::vector<TokenText> second = {{.text = "\xF0\x9F", .logprob = -1.0f, .alternatives = {}},
                                         {.text = "b", .logprob = -0.25f, .alternatives = {}}};
  encoder.OnEvent(0, {.kind = OutputKind::kContent, .text = "é", .logprobs = first}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kContent, .text = "?b", .logprobs = second}, out);
  encoder.End(0, {}, nullptr, out);
  encoder.Finish(kUsage, out);
  const json logprobs = json::parse(out)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (json{"é", "\\xf0\\x9f", "b"}));
  EXPECT_EQ(logprobs["token_logprobs"], (json{-0.5, -1.0, -0.25}));
  EXPECT_EQ(logprobs["top_logprobs"], (json{json{{"z", -2.0}}, json::object(), json::object()}));
  EXPECT_EQ(logprobs["text_offset"], (json{0, 1, 2}));
}

// Two tokens of a scored prompt, the first of them in front of what the client wrote, and one more.
struct SampleScores {
  wire::TokenLogprob b{.logprob = -0.5f,
                       .rank = 2,
                       .alternatives = {{.token = TokenId(7), .logprob = -0.25f},
                                        {.token = TokenId(98), .logprob = -0.5f}}};
  wire::TokenLogprob c{.logprob = -1.0f, .rank = 9, .alternatives = {}};
  std::vector<std::string_view> others = {"z", "b"};
  std::vector<PromptToken> tokens = {
      {.id = 0, .pos = 0, .text = "<s>", .score = nullptr, .others = {}},
      {.id = 97, .pos = 1, .text = "a", .score = &c, .others = {}},
      {.id = 98, .pos = 2, .text = "b", .score = &b, .others = others}};
};

std::string PlayScores(const AnswerSpec& spec) {
  const SampleScores scores;
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, kUsage, out);
  const std::span<const PromptToken> tokens = scores.tokens;
  encoder.OnPrompt(0, {.tokens = tokens.first(2), .text = "a"}, out);
  encoder.OnPrompt(0, {.tokens = tokens.subspan(2), .text = "b"}, out);
  const int64_t n_held = encoder.held_bytes();
  EXPECT_EQ(n_held > 0, !spec.stream) << n_held;
  encoder.End(0, {.finish = Finish::kLength}, spec.stream ? &kUsage : nullptr, out);
  encoder.Finish(kUsage, out);
  return out;
}

TEST(CompletionsEncode, AScoredEchoBeginsWithNullAndLeavesOurTokensOut) {
  AnswerSpec spec = Spec(false);
  spec.logprobs = true;
  spec.n_top_logprobs = 1;
  spec.prompt_scores = {.prompt = {}, .n_ours = 1, .in_echo = true, .n_top = {}};
  const json choice = json::parse(PlayScores(spec))["choices"][0];
  EXPECT_EQ(choice["text"], "ab");
  EXPECT_EQ(choice["logprobs"], json::parse(R"({"tokens":["a","b"],"token_logprobs":[null,-0.5],)"
                                            R"("top_logprobs":[null,{"z":-0.25}],)"
                                            R"("text_offset":[0,1]})"));
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
  spec.stream = true;
  const std::string out = PlayScores(spec);
  EXPECT_NE(out.find(R"("text":"b","logprobs":{"tokens":["b"],"token_logprobs":[-0.5],)"
                     R"("top_logprobs":[{"z":-0.25}],"text_offset":[1]})"),
            std::string::npos)
      << out;
}

TEST(CompletionsEncode, PromptLogprobsAreByIdAndHoldTheTokenItselfOnce) {
  AnswerSpec spec = Spec(false);
  spec.prompt_scores = {.prompt = {}, .n_ours = 1, .in_echo = false, .n_top = 2};
  const json choice = json::parse(PlayScores(spec))["choices"][0];
  EXPECT_EQ(choice["text"], "");
  EXPECT_EQ(choice["prompt_logprobs"],
            json::parse(R"([null,{"97":{"logprob":-1.0,"rank":9,"decoded_token":"a"}},)"
                        R"({"98":{"logprob":-0.5,"rank":2,"decoded_token":"b"},)"
                        R"("7":{"logprob":-0.25,"rank":1,"decoded_token":"z"}}])"));
}

TEST(CompletionsEncode, ErrorsAndSilenceAreAsOnChat) {
  const AnswerSpec spec = Spec(true);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Heartbeat(out);
  EXPECT_EQ(out, ": keep-alive\n\n");
  out.clear();
  encoder.Fail(Status(ErrorCode::kOverloaded, "full"), "r", out);
  EXPECT_EQ(out,
            "data: "
            R"({"error":{"message":"full","type":"overloaded_error","param":null,)"
            R"("code":"overloaded"}})"
            "\n\n");
}

}  // namespace
}  // namespace sluice::codec::completions
