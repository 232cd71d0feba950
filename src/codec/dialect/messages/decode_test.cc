// What the golden cases do not cover: fields of our own, switches, limits.

#include "codec/dialect/messages/decode.h"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec::messages {
namespace {

const ModelCard kCard{.name = "deepseek-flash", .reads_images = true};

std::string Body(const std::string& members) {
  return R"({"model":"claude-opus-9","messages":[{"role":"user","content":"x"}])" +
         (members.empty() ? "" : "," + members) + "}";
}

Result<DecodedRequest> DecodeBody(const std::string& body, const Profile& profile = {}) {
  return Decode(body,
                {.model = kCard, .format = SampleFormat(), .strict = true, .profile = profile});
}

Result<DecodedRequest> DecodeWith(const std::string& members, const Profile& profile = {}) {
  return DecodeBody(Body(members), profile);
}

Result<DecodedRequest> DecodeMessages(const std::string& messages, const Profile& profile = {}) {
  return DecodeBody(R"({"model":"m","messages":)" + messages + "}", profile);
}

// Expects a 400 and returns its text.
std::string Refusal(const Result<DecodedRequest>& result) {
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(RowOf(result.error().code()).http_status, 400) << result.error().ToString();
  return std::string(result.error().message());
}

TEST(MessagesDecode, AnyModelNameIsServedAndEchoed) {
  Result<DecodedRequest> request = DecodeWith("");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->answer.model, "claude-opus-9");
  Result<DecodedRequest> strict = DecodeWith("", {.strict_model_names = true});
  ASSERT_FALSE(strict);
  EXPECT_EQ(RowOf(strict.error().code()).http_status, 404);
  EXPECT_STREQ(RowOf(strict.error().code()).anthropic_type, "not_found_error");
}

TEST(MessagesDecode, UnknownFieldsAreListedAndNeverAnErrorAlsoWhenStrict) {
  Result<DecodedRequest> request =
      DecodeWith(R"("safeguards":[1],"brand_new":{"a":1},"context_management":{},"zz":null)");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(request->ignored_fields, (std::vector<std::string>{"brand_new", "zz"}));
}

TEST(MessagesDecode, OurNumbersAreCheckedAndBounded) {
  EXPECT_EQ(DecodeWith(R"("top_k":40)")->sampling.top_k, 40);
  EXPECT_EQ(DecodeWith(R"("top_k":18446744073709551615)")->sampling.top_k, INT32_MAX);
  EXPECT_NE(Refusal(DecodeWith(R"("top_k":-1)")).find("top_k"), std::string::npos);
  EXPECT_NE(Refusal(DecodeWith(R"("top_k":"4")")).find("top_k"), std::string::npos);
  EXPECT_EQ(DecodeWith(R"("max_tokens":393217)")->n_max_asked, 393'216);
  const std::string enabled = R"("thinking":{"type":"enabled","budget_tokens":)";
  EXPECT_EQ(DecodeWith(enabled + "7}")->thinking_budget, 7);
  EXPECT_EQ(DecodeWith(enabled + "9999999999}")->thinking_budget, 393'216);
  EXPECT_NE(Refusal(DecodeWith(enabled + "0}")).find("budget_tokens"), std::string::npos);
  EXPECT_FALSE(DecodeWith(R"("thinking":{"type":"adaptive","budget_tokens":7})")->thinking_budget);
  EXPECT_EQ(DecodeWith(R"("output_config":{"effort":33})")->conversation.effort, 33);
  EXPECT_NE(Refusal(DecodeWith(R"("output_config":{"effort":101})")).find("effort"),
            std::string::npos);
}

TEST(MessagesDecode, WithoutExtensionsOurValuesAreWhatTheReferenceMakesOfThem) {
  const Profile reference = Profile::Reference();
  auto with = [&](const std::string& members) {
    return DecodeBody(
        R"({"model":"deepseek-flash","messages":[{"role":"user","content":"x"}],)" + members + "}",
        reference);
  };
  EXPECT_FALSE(with(R"("output_config":{"effort":33})"));
  EXPECT_TRUE(with(R"("top_k":"no number")"));
  EXPECT_EQ(with(R"("top_k":5)")->sampling.top_k, 0);
  EXPECT_EQ(with(R"("output_config":{"format":5})")->conversation.response_format,
            ResponseFormat::kText);
}

TEST(MessagesDecode, AnOutputFormatIsASchema) {
  Result<DecodedRequest> request = DecodeWith(
      R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object","b":1}}})");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(request->conversation.response_format, ResponseFormat::kJsonSchema);
  EXPECT_EQ(request->conversation.response_schema, R"({"type":"object","b":1})");
  for (const char* bad : {R"({"type":"json_schema"})", R"({"type":"text"})", R"({})", R"("json")",
                          R"({"type":"json_schema","schema":{"type":"nope"}})",
                          R"({"type":"json_schema","schema":null})"}) {
    EXPECT_NE(Refusal(DecodeWith(R"("output_config":{"format":)" + std::string(bad) + "}"))
                  .find("output_config.format"),
              std::string::npos)
        << bad;
  }
}

constexpr const char* kTool = R"({"name":"f","input_schema":{"type":"object"}})";

TEST(MessagesDecode, ToolsOfTypeCustomAreTheClients) {
  Result<DecodedRequest> request =
      DecodeWith(R"("tools":[{"type":"custom","name":"f","input_schema":{}}])");
  ASSERT_TRUE(request) << request.status().ToString();
  ASSERT_EQ(request->conversation.tools.size(), 1u);
  EXPECT_EQ(request->conversation.tools[0].parameters, R"({"type":"object","properties":{}})");
  EXPECT_FALSE(request->conversation.tools[0].description);
}

TEST(MessagesDecode, WithoutExtensionsASchemaNamesItsType) {
  Profile no_extensions;
  no_extensions.extensions = false;
  for (const char* schema : {"{}", R"({"properties":{}})", "true", R"({"type":"array"})", "null"}) {
    const std::string text = Refusal(DecodeWith(
        R"("tools":[{"name":"f","input_schema":)" + std::string(schema) + "}]", no_extensions));
    EXPECT_TRUE(text.starts_with("Invalid schema for function 'f': ")) << text;
  }
}

TEST(MessagesDecode, StrictToolsAreListedAsIgnored) {
  Result<DecodedRequest> request =
      DecodeWith(R"("tools":[{"name":"f","input_schema":{"type":"object"},"strict":true}])");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->ignored_fields, std::vector<std::string>{"tools.strict"});
}

TEST(MessagesDecode, AnyForcesACallBySwitch) {
  const std::string body =
      std::string(R"("tools":[)") + kTool + R"(],"tool_choice":{"type":"any"})";
  EXPECT_EQ(DecodeWith(body)->conversation.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(DecodeWith(body, {.messages_any_required = false})->conversation.tool_choice,
            ToolChoice::kAuto);
  EXPECT_EQ(Refusal(DecodeWith(body, {.force_call_while_thinking = false})),
            "Thinking mode does not support this tool_choice");
}

TEST(MessagesDecode, ATrailingAssistantMessageIsContinuedBySwitch) {
  const std::string messages =
      R"([{"role":"user","content":"x"},{"role":"assistant","content":"y"}])";
  EXPECT_FALSE(DecodeMessages(messages)->conversation.messages.back().is_prefix);
  EXPECT_TRUE(DecodeMessages(messages, {.messages_prefill_continue = true})
                  ->conversation.messages.back()
                  .is_prefix);
  EXPECT_FALSE(
      DecodeMessages(R"([{"role":"user","content":"x"}])", {.messages_prefill_continue = true})
          ->conversation.messages.back()
          .is_prefix);
}

TEST(MessagesDecode, ABillingLineInAStringIsCutInAnyCaseOfLetters) {
  auto system = [](const std::string& text, const Profile& profile = {}) {
    Result<DecodedRequest> request = DecodeWith("\"system\":\"" + text + '"', profile);
    EXPECT_TRUE(request);
    return request->conversation.messages.front().text;
  };
  EXPECT_EQ(system(R"(X-Anthropic-Billing-Header: a\n\n You are b)"), "You are b");
  EXPECT_EQ(system("x-anthropic-billing-header: a You are b"), "You are b");
  EXPECT_EQ(system("x-anthropic-billing-header: a"), "");
  EXPECT_EQ(system(R"(b x-anthropic-billing-header: a\nc)"), "b x-anthropic-billing-header: a\nc");
  Profile no_extensions;
  no_extensions.extensions = false;
  EXPECT_EQ(system(R"(x-anthropic-billing-header: a\nb)", no_extensions),
            "x-anthropic-billing-header: a\nb");
}

TEST(MessagesDecode, BlocksOfOneMessageAreMarkedAsOne) {
  Result<DecodedRequest> request = DecodeMessages(
      R"([{"role":"user","content":"x"},
          {"role":"assistant","content":[
            {"type":"tool_use","id":"a","name":"f","input":{"k":[1,2]}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"},
                                    {"type":"text","text":"t"},{"type":"text","text":"u"}]}])");
  ASSERT_TRUE(request) << request.status().ToString();
  const std::vector<Message>& messages = request->conversation.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].calls[0].arguments, R"({"k": [1, 2]})");
  EXPECT_EQ(messages[2].tool_call_id, "a");
  EXPECT_FALSE(messages[2].continues);
  EXPECT_EQ(messages[3].text, "t\n\nu");
  EXPECT_TRUE(messages[3].continues);
}

TEST(MessagesDecode, ImagesKeepTheirPlaceAndTheirBytes) {
  Result<DecodedRequest> request = DecodeMessages(
      R"([{"role":"user","content":[{"type":"text","text":"ab"},
          {"type":"image","source":{"type":"base64","media_type":"image/jpg","data":"aGVsbG8==="}},
          {"type":"image","source":{"type":"url","url":"https://e/x"}}]}])");
  ASSERT_TRUE(request) << request.status().ToString();
  const Message& message = request->conversation.messages[0];
  EXPECT_EQ(message.text, "ab\n\n\n\n");
  ASSERT_EQ(message.images.size(), 2u);
  EXPECT_EQ(message.images[0].offset, 4u);
  EXPECT_EQ(message.images[0].source, "data:image/jpeg;base64,aGVsbG8=");
  EXPECT_EQ(message.images[1].offset, 6u);
  EXPECT_EQ(message.images[1].source, "https://e/x");
}

TEST(MessagesDecode, AModelThatReadsTextOnlyRefusesImages) {
  const ModelCard card{.name = "m"};
  Result<DecodedRequest> request = Decode(
      R"({"model":"m","messages":[{"role":"user","content":[
          {"type":"image","source":{"type":"url","url":"https://e/x"}}]}]})",
      {.model = card, .format = SampleFormat()});
  EXPECT_NE(Refusal(request).find("messages.0.content[0]"), std::string::npos);
}

TEST(MessagesDecode, CountsAreLimited) {
  std::string images;
  for (int i = 0; i <= limits::kMaxImages; ++i) {
    images += std::string(i > 0 ? "," : "") +
              R"({"type":"image","source":{"type":"url","url":"http://e"}})";
  }
  EXPECT_NE(Refusal(DecodeMessages(R"([{"role":"user","content":[)" + images + "]}]")).find("600"),
            std::string::npos);
  std::string tools;
  for (int i = 0; i <= limits::kMaxTools; ++i) {
    tools += std::string(i > 0 ? "," : "") + R"({"name":"f)" + std::to_string(i) +
             R"(","input_schema":{"type":"object"}})";
  }
  EXPECT_NE(Refusal(DecodeWith("\"tools\":[" + tools + "]")).find("128"), std::string::npos);
}

// A reference costs a client a few bytes and us the whole schema.
TEST(MessagesDecode, WhatReferencesShowIsLimited) {
  const std::string schema =
      R"({"type":"object","description":")" + std::string(1 << 20, 'a') + "\"}";
  std::string references;
  for (int i = 0; i < 17; ++i)
    references += std::string(i > 0 ? "," : "") + R"({"type":"tool_reference","tool_name":"f"})";
  const std::string body = R"({"model":"m","tools":[{"name":"f","input_schema":)" + schema +
                           R"(}],"messages":[{"role":"user","content":"x"},
          {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[)" +
                           references + "]}]}]}";
  EXPECT_NE(Refusal(DecodeBody(body)).find(std::to_string(limits::kMaxShownToolBytes)),
            std::string::npos);
}

// An error names what is wrong without repeating what the client sent.
TEST(MessagesDecode, ErrorsAreShort) {
  std::string calls;
  for (int i = 0; i < 1000; ++i) {
    calls += std::string(i > 0 ? "," : "") + R"({"type":"tool_use","id":")" +
             std::string(500, 'x') + std::to_string(i) + R"(","name":"f","input":{}})";
  }
  const std::string text = Refusal(DecodeMessages(
      R"([{"role":"user","content":"x"},{"role":"assistant","content":[)" + calls + "]}]"));
  EXPECT_NE(text.find("tool_use"), std::string::npos);
  EXPECT_LT(text.size(), 1000u);
}

// Case C23: history as clients bring it back, with empty and unknown signatures and blocks of other
// servers' thinking.
TEST(MessagesDecode, C23ThinkingOfHistoryIsAcceptedWhateverItsSignature) {
  Result<DecodedRequest> request = DecodeMessages(
      R"([{"role":"user","content":"x"},
          {"role":"assistant","content":[
            {"type":"thinking","thinking":"t","signature":""},
            {"type":"redacted_thinking","data":"zz"},
            {"type":"thinking","thinking":"u","signature":"of another server"},
            {"type":"text","text":"y"},
            {"type":"tool_use","id":"a","name":"f","input":{},
             "cache_control":{"type":"ephemeral"}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true}]}])");
  ASSERT_TRUE(request) << request.status().ToString();
  const Message& assistant = request->conversation.messages[1];
  EXPECT_EQ(assistant.reasoning, "t\n\nu");
  EXPECT_EQ(assistant.text, "y");
  EXPECT_EQ(assistant.calls.size(), 1u);
}

}  // namespace
}  // namespace sluice::codec::messages
