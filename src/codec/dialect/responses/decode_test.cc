// What the golden cases do not cover: fields of our own, limits, history by reference, searches.

#include "codec/dialect/responses/decode.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "codec/dialect/responses/response_store.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec::responses {
namespace {

using nlohmann::json;

const ModelCard kCard{.name = "deepseek-flash"};
const KeyId kAnn(1);

// A request with these further members, given as JSON text.
std::string Body(const std::string& members) {
  return R"({"model":"deepseek-flash")" + (members.empty() ? "" : "," + members) + "}";
}

Result<DecodedRequest> DecodeWith(const std::string& members, bool strict = false) {
  return Decode(Body(R"("input":"x")" + (members.empty() ? "" : "," + members)),
                {.model = kCard, .format = SampleFormat(), .strict = strict});
}

Result<DecodedRequest> DecodeInput(const std::string& input, const std::string& more = "") {
  return Decode(Body("\"input\":" + input + (more.empty() ? "" : "," + more)),
                {.model = kCard, .format = SampleFormat()});
}

struct Expected {
  int status = 400;
  const char* code = "invalid_request_error";
  const char* param = "";
};

// Expects a refusal whose text or parameter names `field`.
void ExpectRefusal(const Result<DecodedRequest>& result,
                   const std::string& field,
                   const Expected& expected = {}) {
  ASSERT_FALSE(result) << field;
  const Status& status = result.error();
  EXPECT_EQ(RowOf(status.code()).http_status, expected.status) << status.ToString();
  EXPECT_EQ(status.api_code(), expected.code);
  EXPECT_NE(status.ToString().find(field), std::string::npos) << status.ToString();
  if (expected.param[0] != 0) {
    EXPECT_EQ(status.param(), expected.param);
  }
}

// The roles of the messages, a letter each: s, d (developer), u, a, t.
std::string RolesOf(const DecodedRequest& request) {
  std::string roles;
  for (const Message& message : request.conversation.messages)
    roles += message.is_developer ? 'd' : "suatr"[static_cast<size_t>(message.role)];
  return roles;
}

TEST(ResponsesDecode, FieldsOfTheWrongTypeAreRefusedByName) {
  for (const char* members : {R"("store":"yes")",
                              R"("background":1)",
                              R"("parallel_tool_calls":"no")",
                              R"("previous_response_id":5)",
                              R"("prompt_cache_key":{})",
                              R"("stream":1)",
                              R"("instructions":[])",
                              R"("user":1)",
                              R"("reasoning":"high")",
                              R"("reasoning":{"effort":0})",
                              R"("reasoning":{"effort":101})",
                              R"("reasoning":{"effort":1.5})",
                              R"("reasoning":{"summary":1})",
                              R"("text":[])",
                              R"("text":{"format":"text"})",
                              R"("text":{"format":{"type":"xml"}})",
                              R"("text":{"verbosity":1})",
                              R"("max_output_tokens":1.5)",
                              R"("max_output_tokens":-1)",
                              R"("top_logprobs":true)",
                              R"("tools":{})",
                              R"("tools":["a"])",
                              R"("tools":[{}])",
                              R"("tools":[{"type":"function"}])",
                              R"("tools":[{"type":"namespace","name":"n"}])",
                              R"("tool_choice":"some")",
                              R"("tool_choice":{})",
                              R"("tool_choice":{"type":"function"})",
                              R"("tool_choice":{"type":"allowed_tools"})"}) {
    const std::string name = std::string(members).substr(1, std::string(members).find('"', 1) - 1);
    ExpectRefusal(DecodeWith(members), name);
  }
}

TEST(ResponsesDecode, ItemsOfTheWrongShapeAreRefusedByPlace) {
  for (const char* item :
       {R"("text")", R"({"type":5,"role":"user","content":"x"})", R"({"role":"user"})",
        R"({"role":"user","content":5})", R"({"role":"user","content":[{"type":"input_text"}]})",
        R"({"role":"user","content":[{"type":"input_text","text":5}]})",
        R"({"role":"user","content":["x"]})", R"({"type":"reasoning","content":"x"})",
        R"({"type":"reasoning","content":[{"type":"reasoning_text"}]})",
        R"({"type":"function_call","name":"f","arguments":"{}"})",
        R"({"type":"function_call","call_id":"a","arguments":"{}"})",
        R"({"type":"function_call","call_id":"a","name":"f","arguments":{}})",
        R"({"type":"custom_tool_call","call_id":"a","name":"f"})",
        R"({"type":"function_call_output","call_id":"a"})",
        R"({"type":"function_call_output","call_id":5,"output":"x"})",
        R"({"type":"tool_search_output","call_id":"a"})", R"({"type":"item_reference"})"}) {
    ExpectRefusal(DecodeInput("[" + std::string(item) + "]"), "input[0]");
  }
}

TEST(ResponsesDecode, UnknownFieldsAreListedOrWithStrictRefused) {
  Result<DecodedRequest> request =
      DecodeWith(R"("max_tool_calls":3,"include":[],"metadata":{},"new field":1)");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->ignored_fields, (std::vector<std::string>{"max_tool_calls", "new?field"}));
  ExpectRefusal(DecodeWith(R"("max_tool_calls":3)", /*strict=*/true), "max_tool_calls",
                {.param = "max_tool_calls"});
  EXPECT_TRUE(DecodeWith(R"("include":[],"client_metadata":{},"truncation":"auto")", true));
}

TEST(ResponsesDecode, WhatMeansNothingHereIsListedByPlace) {
  Result<DecodedRequest> request = DecodeInput(
      R"([{"role":"user","content":"x"},{"type":"local_shell_call","action":{}}])",
      R"("tools":[{"type":"function","name":"f"},{"type":"file_search"},{"type":"web_search"}])");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->ignored_fields,
            (std::vector<std::string>{"tools[1]", "tools[2]", "input[1]"}));
  EXPECT_EQ(request->conversation.tools.size(), 1u);
}

TEST(ResponsesDecode, LimitsAreKept) {
  std::string tools;
  for (int i = 0; i < limits::kMaxTools; ++i)
    tools += R"({"type":"function","name":"f)" + std::to_string(i) + "\"},";
  const std::string space = R"({"type":"namespace","name":"n","tools":[)";
  std::string members = tools.substr(0, tools.size() - 1);
  EXPECT_TRUE(DecodeWith("\"tools\":[" + members + "]"));
  EXPECT_TRUE(DecodeWith("\"tools\":[" + space + members + "]}]"));
  const std::string one_more = R"({"type":"function","name":"g"})";
  ExpectRefusal(DecodeWith("\"tools\":[" + tools + one_more + "]"), "tools", {.param = "tools"});
  ExpectRefusal(DecodeWith("\"tools\":[" + space + members + "]}," + one_more + "]"), "tools",
                {.param = "tools"});
  ExpectRefusal(DecodeWith("\"user\":\"" + std::string(513, 'u') + "\""), "user");
  Result<DecodedRequest> request =
      DecodeWith("\"prompt_cache_key\":\"" + std::string(9999, 'k') + "\"");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->user.size(), static_cast<size_t>(limits::kMaxUserIdBytes));
}

TEST(ResponsesDecode, EffortIsANumberOrAName) {
  EXPECT_EQ(DecodeWith(R"("reasoning":{"effort":37})")->conversation.effort, 37);
  EXPECT_EQ(DecodeWith(R"("reasoning":{"effort":"low"})")->conversation.effort, 50);
  EXPECT_FALSE(DecodeWith(R"("reasoning":{"effort":"none"})")->conversation.thinking);
  EXPECT_TRUE(DecodeWith(R"("reasoning":{"effort":null})")->conversation.thinking);
}

// C14: `instructions` and `developer` items between user turns gave a template error, or two
// system messages in front.
TEST(ResponsesDecode, C14InstructionsComeFirstAndDeveloperItemsStayInTheirPlace) {
  Result<DecodedRequest> request = DecodeInput(
      R"([{"role":"developer","content":"a"},{"role":"user","content":"b"},
          {"role":"developer","content":"c"},{"role":"user","content":"d"}])",
      R"("instructions":"i")");
  ASSERT_TRUE(request);
  EXPECT_EQ(RolesOf(*request), "sdudu");
  EXPECT_EQ(request->conversation.messages[0].text, "i");
  EXPECT_EQ(request->conversation.messages[3].text, "c");
}

TEST(ResponsesDecode, AResizeNoticeStandsBehindItsResultAlsoBetweenTwo) {
  const std::string notice =
      R"({"role":"developer","content":[{"type":"input_text",
          "text":"<image_resize_notice>half</image_resize_notice>"}]})";
  Result<DecodedRequest> request = DecodeInput(
      R"([{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},
          {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
          {"type":"function_call_output","call_id":"b","output":"rb"},)" +
      notice + R"(,{"type":"function_call_output","call_id":"a","output":"ra"},)" + notice + "]");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(RolesOf(*request), "atdtd");
  EXPECT_EQ(request->conversation.messages[1].text, "ra");
  EXPECT_EQ(request->conversation.messages[3].text, "rb");
  // Not right behind a result it is an ordinary message, and a call is open.
  ExpectRefusal(DecodeInput(R"([{"type":"function_call","call_id":"b","name":"f",
                                 "arguments":"{}"},)" +
                            notice + "]"),
                "No tool output found for tool call b.");
}

TEST(ResponsesDecode, AResultWithoutACallIdWaitsForTheOpenCalls) {
  Result<DecodedRequest> request = DecodeInput(
      R"([{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},
          {"type":"function_call_output","output":"loose"},
          {"type":"function_call_output","call_id":"b","output":"rb"}])");
  ASSERT_TRUE(request);
  EXPECT_EQ(RolesOf(*request), "att");
  EXPECT_EQ(request->conversation.messages[2].text, "loose");
}

constexpr char kSearched[] =
    R"([{"role":"user","content":"x"},
        {"type":"tool_search_call","call_id":"s","execution":"client","arguments":{"query":"git"}},
        {"type":"tool_search_output","call_id":"s","execution":"client","tools":[
          {"type":"function","name":"plain","description":"P","parameters":{"type":"object"}},
          {"type":"namespace","name":"git","description":"Git.","tools":[
            {"type":"function","name":"log","strict":false}]}]},
        {"type":"function_call","call_id":"c","name":"log","namespace":"git","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"r"}])";
constexpr char kSearchTool[] =
    R"({"type":"tool_search","execution":"client","description":"Finds.",
        "parameters":{"type":"object"}})";

TEST(ResponsesDecode, WhatASearchFoundIsShownBehindItsResultAndMayBeCalled) {
  Result<DecodedRequest> request =
      DecodeInput(kSearched, "\"tools\":[" + std::string(kSearchTool) + "]");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(RolesOf(*request), "uatsat");
  const std::vector<Message>& messages = request->conversation.messages;
  EXPECT_EQ(messages[1].calls[0].name, "tool_search");
  EXPECT_EQ(messages[1].calls[0].arguments, R"({"query":"git"})");
  EXPECT_EQ(messages[2].text,
            R"([{"type":"function","name":"plain","description":"P",)"
            R"("parameters":{"type":"object"},"strict":null},)"
            R"({"type":"function","name":"log","description":null,"parameters":null,)"
            R"("strict":false,"namespace":{"name":"git","description":"Git."}}])");
  ASSERT_EQ(messages[3].tools.size(), 2u);
  EXPECT_TRUE(messages[3].tools[1].is_deferred);
  EXPECT_EQ(messages[3].tools[1].name, "git::log");
  EXPECT_EQ(messages[3].tools[1].description, "Git.\n");
  EXPECT_EQ(messages[4].calls[0].name, "git::log");
  ASSERT_EQ(request->answer.tools.size(), 3u);
  EXPECT_EQ(request->answer.tools[0].kind, ToolKind::kSearch);
  EXPECT_EQ(request->answer.tools[2].bare_name, "log");
}

TEST(ResponsesDecode, WhatASearchFoundVanishesWhereTheChoiceExcludesIt) {
  const std::string tools =
      "\"tools\":[" + std::string(kSearchTool) + R"(,{"type":"function","name":"f"}],)";
  EXPECT_EQ(RolesOf(*DecodeInput(kSearched, tools + R"("tool_choice":"none")")), "uatat");
  EXPECT_EQ(
      RolesOf(*DecodeInput(kSearched, tools + R"("tool_choice":{"type":"function","name":"f"})")),
      "uatat");
  Result<DecodedRequest> allowed =
      DecodeInput(kSearched, tools + R"("tool_choice":{"type":"allowed_tools","mode":"auto",
                            "tools":[{"type":"function","name":"plain"},
                                     {"type":"function","name":"f"}]})");
  ASSERT_TRUE(allowed);
  EXPECT_EQ(allowed->conversation.messages[3].tools.size(), 1u);
  EXPECT_EQ(allowed->conversation.tools.size(), 1u);
}

TEST(ResponsesDecode, DeferredToolsAreHiddenOnlyIfTheyCanBeFound) {
  const std::string deferred = R"({"type":"function","name":"f","defer_loading":true})";
  EXPECT_FALSE(DecodeWith("\"tools\":[" + deferred + "]")->conversation.tools[0].is_deferred);
  EXPECT_TRUE(DecodeWith("\"tools\":[" + deferred + "," + kSearchTool + "]")
                  ->conversation.tools[0]
                  .is_deferred);
}

TEST(ResponsesDecode, OtherCustomToolsTakeOneText) {
  Result<DecodedRequest> request = DecodeInput(
      R"([{"type":"custom_tool_call","call_id":"a","name":"sql","input":"select \"x\""},
          {"type":"custom_tool_call_output","call_id":"a","output":"1"}])",
      R"("tools":[{"type":"custom","name":"sql","description":"Asks."}])");
  ASSERT_TRUE(request) << request.status().ToString();
  const Tool& tool = request->conversation.tools[0];
  EXPECT_EQ(tool.kind, ToolKind::kCustom);
  EXPECT_EQ(tool.description, "Asks.");
  EXPECT_EQ(json::parse(tool.parameters)["required"], json({"input"}));
  EXPECT_EQ(request->conversation.messages[0].calls[0].arguments, R"({"input":"select \"x\""})");
}

TEST(ResponsesDecode, ManyFoundToolsAreRefused) {
  std::string tools;
  for (int i = 0; i <= limits::kMaxFoundTools; ++i)
    tools += R"({"type":"function","name":"f)" + std::to_string(i) + "\"},";
  tools.pop_back();
  ExpectRefusal(DecodeInput(R"([{"type":"tool_search_output","tools":[)" + tools + "]}]"), "input",
                {.param = "input"});
}

class ResponsesHistory : public testing::Test {
 protected:
  ResponsesHistory() {
    store_.Keep(kAnn, "resp_1",
                {.head = R"({"id":"resp_1")",
                 .output = {{.id = "rs_resp_1_0",
                             .text = R"({"id":"rs_resp_1_0","type":"reasoning","content":
                                         [{"type":"reasoning_text","text":"thought"}]})"},
                            {.id = "fc_resp_1_1",
                             .text = R"({"id":"fc_resp_1_1","type":"function_call","call_id":"c",
                                         "name":"log","namespace":"git","arguments":"{}"})"}},
                 .input = R"([{"role":"user","content":"before"}])"});
  }

  Result<DecodedRequest> DecodeAs(KeyId key, const std::string& members, Profile profile = {}) {
    return Decode(Body(members), {.model = kCard,
                                  .format = SampleFormat(),
                                  .profile = profile,
                                  .responses = &store_,
                                  .key = key});
  }

  ResponseStore store_{{.n_bytes = kMiB, .n_responses = 9, .age = Duration::Seconds(9)}};
  const std::string result_ = R"({"type":"function_call_output","call_id":"c","output":"r"})";
};

TEST_F(ResponsesHistory, ThePreviousResponseStandsBeforeTheInputWithoutItsInstructions) {
  Result<DecodedRequest> request =
      DecodeAs(kAnn, R"("previous_response_id":"resp_1","instructions":"now","input":[)" + result_ +
                         R"(,{"role":"user","content":"go on"}])");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(RolesOf(*request), "suatu");
  const Message& turn = request->conversation.messages[2];
  EXPECT_EQ(turn.reasoning, "thought");
  EXPECT_EQ(turn.calls[0].name, "git::log");
  EXPECT_NE(request->answer.echo.find(R"("previous_response_id":"resp_1")"), std::string::npos);
  EXPECT_EQ(json::parse(request->answer.keep.input).size(), 5u);
  EXPECT_FALSE(request->answer.keep.was_asked);
  EXPECT_EQ(request->answer.keep.key, kAnn);
}

TEST_F(ResponsesHistory, ACallOfThePreviousResponseNeedsItsResult) {
  ExpectRefusal(DecodeAs(kAnn, R"("previous_response_id":"resp_1","input":"go on")"),
                "No tool output found for tool call c.");
}

TEST_F(ResponsesHistory, ReferencesOfEveryKindAreReplaced) {
  Result<DecodedRequest> request =
      DecodeAs(kAnn, R"("input":[{"role":"user","content":"q"},{"type":"item_reference",
                "id":"rs_resp_1_0"},{"id":"fc_resp_1_1"},)" +
                         result_ + "]");
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(RolesOf(*request), "uat");
  EXPECT_EQ(request->conversation.messages[1].reasoning, "thought");
  EXPECT_NE(request->answer.keep.input.find("thought"), std::string::npos);
}

TEST_F(ResponsesHistory, WhatIsNotThereIsRefusedWithItsId) {
  const Expected previous{.code = "previous_response_not_found", .param = "previous_response_id"};
  const Expected item{.status = 404, .code = "item_not_found", .param = "input"};
  const std::string reference = R"("input":[{"type":"item_reference","id":")";
  ExpectRefusal(DecodeAs(kAnn, R"("previous_response_id":"resp_9","input":"x")"), "resp_9",
                previous);
  ExpectRefusal(DecodeAs(KeyId(2), R"("previous_response_id":"resp_1","input":"x")"), "resp_1",
                previous);
  ExpectRefusal(DecodeAs(kAnn, reference + "rs_resp_1_1\"}]"), "rs_resp_1_1", item);
  ExpectRefusal(DecodeAs(KeyId(2), reference + "rs_resp_1_0\"}]"), "rs_resp_1_0", item);
  ExpectRefusal(DecodeInput(R"([{"type":"item_reference","id":"rs_resp_1_0"}])"), "rs_resp_1_0",
                item);
}

TEST_F(ResponsesHistory, TheOrderOfTheChecksIsModelBackgroundConversationPrevious) {
  const Expected unsupported{.code = "unsupported_parameter", .param = "background"};
  const std::string all = R"("previous_response_id":"resp_9","conversation":{"id":"c"},
                             "background":true,"input":[])";
  Result<DecodedRequest> other =
      Decode(R"({"model":"gpt-9",)" + all + "}",
             {.model = kCard, .format = SampleFormat(), .responses = &store_});
  ExpectRefusal(other, "gpt-9", {.status = 404, .code = "model_not_found", .param = "model"});
  ExpectRefusal(DecodeAs(kAnn, all), "background", unsupported);
  ExpectRefusal(DecodeAs(kAnn, R"("previous_response_id":"resp_9","conversation":"c",
                                  "background":false,"input":[])"),
                "conversation", {.code = "unsupported_parameter", .param = "conversation"});
  ExpectRefusal(DecodeAs(kAnn, R"("previous_response_id":"resp_9","input":[])"), "resp_9",
                {.code = "previous_response_not_found"});
}

TEST_F(ResponsesHistory, WithTheSwitchUnknownHistoryIsIgnoredAndKnownHistoryIsNot) {
  Profile profile;
  profile.unknown_history_reject = false;
  Result<DecodedRequest> unknown =
      DecodeAs(kAnn, R"("previous_response_id":"resp_9","conversation":"c","background":true,
                        "input":[{"role":"user","content":"x"},
                                 {"type":"item_reference","id":"msg_resp_9_0"}])",
               profile);
  ASSERT_TRUE(unknown) << unknown.status().ToString();
  EXPECT_EQ(RolesOf(*unknown), "u");
  EXPECT_NE(unknown->answer.echo.find(R"("previous_response_id":null)"), std::string::npos);
  EXPECT_EQ(unknown->ignored_fields, (std::vector<std::string>{"input[1]"}));
  Result<DecodedRequest> known =
      DecodeAs(kAnn, R"("previous_response_id":"resp_1","input":[)" + result_ + "]", profile);
  ASSERT_TRUE(known);
  EXPECT_EQ(RolesOf(*known), "uat");
}

TEST_F(ResponsesHistory, StoreFalseAndWhatIsTooLongAreNotKept) {
  EXPECT_EQ(DecodeAs(kAnn, R"("input":"x","store":false)")->answer.keep.store, nullptr);
  EXPECT_EQ(DecodeAs(kAnn, R"("input":"x")")->answer.keep.store, &store_);
  EXPECT_TRUE(DecodeAs(kAnn, R"("input":"x","store":true)")->answer.keep.was_asked);
  const std::string text(2 * kMiB, 'x');
  Result<DecodedRequest> longer = DecodeAs(kAnn, R"("store":true,"input":")" + text + "\"");
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->answer.keep.store, nullptr);
  EXPECT_TRUE(longer->answer.keep.input.empty());
}

// A few references must not become more than one request may be.
TEST_F(ResponsesHistory, WhatReferencesStandForIsBounded) {
  ResponseStore store({.n_bytes = 16 * kMiB, .n_responses = 9, .age = Duration::Seconds(9)});
  store.Keep(kAnn, "resp_2",
             {.head = "{",
              .output = {{.id = "msg_resp_2_0",
                          .text = R"({"type":"message","role":"assistant","content":")" +
                                  std::string(7 * kMiB, 'x') + "\"}"}},
              .input = "[]"});
  std::string references;
  for (int i = 0; i < 10; ++i) references += R"({"id":"msg_resp_2_0"},)";
  references.pop_back();
  Result<DecodedRequest> request =
      Decode(Body("\"input\":[" + references + "]"),
             {.model = kCard, .format = SampleFormat(), .responses = &store, .key = kAnn});
  ExpectRefusal(request, "input", {.status = 413, .code = "request_too_large", .param = "input"});
}

}  // namespace
}  // namespace sluice::codec::responses
