#include "load/answer_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::load {
namespace {

constexpr std::string_view kUsage =
    R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,)"
    R"("prompt_tokens_details":{"cached_tokens":4}}})";

std::string Delta(std::string_view delta, std::string_view finish = "null") {
  return fmt::format(R"({{"choices":[{{"index":0,"delta":{},"finish_reason":{}}}]}})", delta,
                     finish);
}

struct Played {
  int64_t n_output = 0;
  Status status;
};
Played Play(AnswerReader& reader, std::initializer_list<std::string> events) {
  Played played;
  for (const std::string& data : events) {
    const Result<bool> is_output = reader.OnEvent({.data = data});
    if (!is_output) {
      played.status = is_output.error();
      break;
    }
    played.n_output += *is_output;
  }
  return played;
}

TEST(AnswerReader, AChatAnswerIsRightAndKept) {
  AnswerReader reader(Api::kChat, true);
  const Played played = Play(
      reader,
      {Delta(R"({"role":"assistant","content":null,"reasoning_content":""})"),
       Delta(R"({"reasoning_content":"hm"})"), Delta(R"({"content":"a"})"),
       Delta(R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"ls","arguments":"{"}}]})"),
       Delta(R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}}]})"),
       Delta(R"({"content":""})", R"("tool_calls")"), std::string(kUsage), "[DONE]"});
  ASSERT_TRUE(played.status.ok()) << played.status.ToString();
  EXPECT_EQ(played.n_output, 4);
  EXPECT_TRUE(reader.ended());
  EXPECT_TRUE(reader.Check(3).ok());
  EXPECT_EQ(reader.usage().n_prompt, 9);
  EXPECT_EQ(reader.usage().n_cached, 4);
  EXPECT_EQ(reader.usage().n_output, 3);
  const AnswerTurn& turn = reader.turn();
  EXPECT_EQ(turn.reasoning, "hm");
  EXPECT_EQ(turn.text, "a");
  ASSERT_EQ(turn.calls.size(), 1u);
  EXPECT_EQ(turn.calls[0].id, "c1");
  EXPECT_EQ(turn.calls[0].name, "ls");
  EXPECT_EQ(turn.calls[0].arguments, "{}");
}

TEST(AnswerReader, WhatIsWrongWithAChatAnswerIsSaid) {
  const std::string text = Delta(R"({"content":"a"})");
  const std::string stop = Delta("{}", R"("stop")");
  const auto check = [](std::initializer_list<std::string> events, int64_t n_max = 0) {
    AnswerReader reader(Api::kChat, false);
    const Played played = Play(reader, events);
    return played.status.ok() ? reader.Check(n_max) : played.status;
  };
  const std::string usage(kUsage);
  EXPECT_TRUE(check({text, stop, usage, "[DONE]"}).ok());
  EXPECT_NE(check({text, stop, usage}).message().find("terminal"), std::string::npos);
  EXPECT_NE(check({text, usage, "[DONE]"}).message().find("finish_reason"), std::string::npos);
  EXPECT_NE(check({text, stop, "[DONE]"}).message().find("usage"), std::string::npos);
  EXPECT_TRUE(check({text, text, text, text, stop, usage, "[DONE]"}).ok());  // a held rest
  EXPECT_NE(check({text, text, text, text, text, stop, usage, "[DONE]"}).message().find("5 events"),
            std::string::npos);
  EXPECT_NE(check({text, stop, usage, "[DONE]"}, 2).message().find("allowed"), std::string::npos);
  EXPECT_NE(check({text, stop, text}).message().find("finish_reason"), std::string::npos);
  EXPECT_NE(check({text, stop, usage, "[DONE]", usage}).message().find("follows"),
            std::string::npos);
  EXPECT_FALSE(check({"{"}).ok());
}

TEST(AnswerReader, AnErrorInsideAStreamIsToldApart) {
  AnswerReader chat(Api::kChat, false);
  EXPECT_TRUE(Play(chat, {R"({"error":{"type":"internal_error","message":"boom"}})"}).status.ok());
  EXPECT_EQ(chat.error(), "internal_error: boom");
  AnswerReader messages(Api::kMessages, false);
  (void)Play(messages, {R"({"type":"error","error":{"type":"api_error","message":"boom"}})"});
  EXPECT_EQ(messages.error(), "api_error: boom");
  AnswerReader responses(Api::kResponses, false);
  (void)Play(responses, {R"({"type":"response.failed","response":{"error":{"code":"server_error",)"
                         R"("message":"boom"}}})"});
  EXPECT_EQ(responses.error(), "server_error: boom");
}

TEST(AnswerReader, AMessagesAnswerIsRightAndKept) {
  AnswerReader reader(Api::kMessages, true);
  const Played played = Play(
      reader,
      {R"({"type":"message_start","message":{"usage":{"input_tokens":5,)"
       R"("cache_read_input_tokens":2,"cache_creation_input_tokens":1}}})",
       R"({"type":"content_block_start","content_block":{"type":"thinking","thinking":""}})",
       R"({"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}})",
       R"({"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"}})",
       R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}})",
       R"({"type":"content_block_start","content_block":{"type":"tool_use","id":"c","name":"ls"}})",
       R"({"type":"content_block_delta","delta":{"partial_json":"{}"}})",
       R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},)"
       R"("usage":{"output_tokens":4}})",
       R"({"type":"message_stop"})"});
  ASSERT_TRUE(played.status.ok());
  EXPECT_EQ(played.n_output, 4);
  EXPECT_TRUE(reader.Check(4).ok());
  EXPECT_EQ(reader.usage().n_prompt, 8);
  EXPECT_EQ(reader.usage().n_cached, 2);
  EXPECT_EQ(reader.turn().signature, "s");
  EXPECT_EQ(reader.turn().calls[0].arguments, "{}");
}

TEST(AnswerReader, AResponsesAnswerIsRightAndKept) {
  AnswerReader reader(Api::kResponses, true);
  const Played played = Play(
      reader,
      {R"({"type":"response.created"})", R"({"type":"response.output_text.delta","delta":"a"})",
       R"({"type":"response.output_text.delta","delta":""})",
       R"({"type":"response.completed","response":{"output":[{"type":"message","x":1},)"
       R"({"type":"function_call","call_id":"c"}],)"
       R"("usage":{"input_tokens":3,"output_tokens":1}}})"});
  ASSERT_TRUE(played.status.ok());
  EXPECT_EQ(played.n_output, 1);
  EXPECT_TRUE(reader.Check(0).ok());
  EXPECT_EQ(reader.turn().items[0], R"({"type":"message","x":1})");
  EXPECT_EQ(reader.turn().calls[0].id, "c");
}

TEST(AnswerReader, ACallWithoutItsPlaceIsRefused) {
  AnswerReader reader(Api::kChat, true);
  EXPECT_FALSE(Play(reader, {Delta(R"({"tool_calls":[{"index":5,"id":"x"}]})")}).status.ok());
}

}  // namespace
}  // namespace sluice::load
