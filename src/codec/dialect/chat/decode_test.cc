// What the golden cases do not cover: fields of our own, limits, numbers at their edges.

#include "codec/dialect/chat/decode.h"

#include "codec/cut_format_test_impl.h"
#include "codec/sample_format_test_impl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/limits.h"

namespace sluice::codec::chat {
namespace {

using nlohmann::json;

const ModelCard kCard{.name = "deepseek-flash", .aliases = {"deepseek-v4-flash"}};

// A request with these further members, given as JSON text: numbers reach the decoder as written.
std::string Body(const std::string& members) {
  return R"({"model":"deepseek-flash","messages":[{"role":"user","content":"x"}])" +
         (members.empty() ? "" : "," + members) + "}";
}

Result<DecodedRequest> DecodeWith(const std::string& members, bool strict = false) {
  return Decode(Body(members), {.model = kCard, .format = SampleFormat(), .strict = strict});
}

Result<DecodedRequest> DecodeMessages(const std::string& messages) {
  return Decode(R"({"model":"deepseek-flash","messages":)" + messages + "}",
                {.model = kCard, .format = SampleFormat()});
}

// Expects a refusal with status 400, naming `field`, and returns its text.
std::string Refusal(const Result<DecodedRequest>& result, const std::string& field) {
  EXPECT_FALSE(result) << field;
  if (result) return "";
  EXPECT_EQ(RowOf(result.error().code()).http_status, 400) << result.error().ToString();
  EXPECT_NE(result.error().ToString().find(field), std::string::npos) << result.error().ToString();
  return std::string(result.error().message());
}

struct NumberField {
  const char* name;
  std::vector<const char*> good;
  std::vector<const char*> bad;  // besides those that are bad everywhere
};

const NumberField kNumberFields[] = {
    {"temperature", {"0", "-0", "-0.0", "1e-400", "2", "2.0"}, {"-1e-300", "2.0000001", "1e308"}},
    {"top_p", {"1", "1e-300", "0.5"}, {"0", "-0.0", "1e-400", "1.0000001", "-1"}},
    {"frequency_penalty", {"-2", "2", "-0"}, {"-2.1", "2.1"}},
    {"presence_penalty", {"-2", "2", "-0"}, {"-2.1", "2.1"}},
    {"min_p", {"0", "-0.0", "1", "1e-400"}, {"-1e-300", "1.0000001"}},
    {"repetition_penalty", {"5e-324", "1", "2"}, {"0", "-0.0", "1e-400", "-1", "2.0000001"}},
    {"min_tokens",
     {"0", "393216"},
     {"-1", "1.0", "1e3", "393217", "2147483648", "18446744073709551616"}},
    {"max_tokens",
     {"1", "393216"},
     {"0", "-0.0", "-1", "1.0", "1e3", "393217", "18446744073709551616"}},
    {"max_completion_tokens", {"1", "393216"}, {"0", "-1", "1.5", "393217", "9223372036854775807"}},
    {"n", {"1", "16"}, {"0", "17", "-1", "1.5", "18446744073709551615"}},
    {"seed", {"0", "9223372036854775807"}, {"-1", "0.5", "9223372036854775808"}},
    {"reasoning_effort", {"1", "100", "\"max\""}, {"0", "101", "-1", "50.0", "\"extreme\""}},
};

TEST(Decode, NumbersAreFiniteAndInRange) {
  for (const NumberField& field : kNumberFields) {
    auto with = [&](const char* value) {
      return DecodeWith('"' + std::string(field.name) + "\":" + value);
    };
    for (const char* good : field.good) {
      EXPECT_TRUE(with(good)) << field.name << " " << good << ": "
                              << with(good).status().ToString();
    }
    for (const char* bad : field.bad) Refusal(with(bad), field.name);
    for (const char* bad : {"\"1\"", "\"NaN\"", "true", "[]", "[1]", "{}"})
      Refusal(with(bad), field.name);
    // These are no JSON numbers or no doubles: the body reader's errors.
    for (const char* bad : {"1e999", "-1e999", "NaN", "Infinity", "0x1", "1.", "+1"})
      Refusal(with(bad), "JSON");
    EXPECT_TRUE(with("null")) << field.name;
  }
}

TEST(Decode, ATemperatureOfMinusZeroIsZero) {
  Result<DecodedRequest> request = DecodeWith("\"temperature\":-0.0");
  ASSERT_TRUE(request);
  EXPECT_FALSE(std::signbit(request->sampling.temperature));
}

TEST(Decode, TheSmallerOfTheTwoOutputLimitsCounts) {
  EXPECT_EQ(DecodeWith(R"("max_tokens":5,"max_completion_tokens":9)")->n_max_asked, 5);
  EXPECT_EQ(DecodeWith(R"("max_tokens":9,"max_completion_tokens":5)")->n_max_asked, 5);
  EXPECT_EQ(DecodeWith(R"("max_completion_tokens":5)")->n_max_asked, 5);
  EXPECT_EQ(DecodeWith("")->n_max_asked, std::nullopt);
}

TEST(Decode, ThinkingAndEffortHaveAliases) {
  auto mode = [](const std::string& members) {
    Result<DecodedRequest> request = DecodeWith(members);
    EXPECT_TRUE(request) << request.status().ToString();
    return std::pair(request->conversation.thinking, request->conversation.effort);
  };
  EXPECT_EQ(mode(""), std::pair(true, 75));
  EXPECT_EQ(mode(R"("reasoning_effort":30)"), std::pair(true, 30));
  EXPECT_EQ(mode(R"("chat_template_kwargs":{"thinking":false})"), std::pair(false, 75));
  EXPECT_EQ(mode(R"("chat_template_kwargs":{"enable_thinking":false,"other":1})"),
            std::pair(false, 75));
  EXPECT_EQ(mode(R"("chat_template_kwargs":{"reasoning_effort":"low"})"), std::pair(true, 50));
  EXPECT_EQ(mode(R"("chat_template_kwargs":{"reasoning_effort":"none"})"), std::pair(false, 75));
  // The fields themselves win.
  EXPECT_EQ(mode(R"("thinking":{"type":"enabled"},"chat_template_kwargs":{"thinking":false})"),
            std::pair(true, 75));
  EXPECT_EQ(mode(R"("reasoning_effort":"max","chat_template_kwargs":{"reasoning_effort":1})"),
            std::pair(true, 100));
  Refusal(DecodeWith(R"("chat_template_kwargs":{"thinking":"no"})"),
          "chat_template_kwargs.thinking");
  Refusal(DecodeWith(R"("chat_template_kwargs":7)"), "chat_template_kwargs");
}

TEST(Decode, UnknownFieldsAreListedOnceBoundedAndFitForAHeader) {
  Result<DecodedRequest> request = DecodeWith(
      R"("store":false,"metadata":{},"zeta":1,"alpha":null,"a\r\nb, c":1,"naïve":0,"é":0)");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->ignored_fields,
            std::vector<std::string>({"zeta", "alpha", "a??b??c", "na?ve", "?"}));
  std::string many;
  for (int i = 0; i < 100; ++i)
    many += (i > 0 ? "," : "") + ("\"x" + std::to_string(i) + "\":" + std::to_string(i));
  EXPECT_EQ(std::ssize(DecodeWith(many)->ignored_fields), limits::kMaxIgnoredFieldsListed);
}

TEST(Decode, InStrictModeAnUnknownFieldIsRefusedByName) {
  Result<DecodedRequest> request = DecodeWith(R"("zeta":1)", /*strict=*/true);
  Refusal(request, "zeta");
  EXPECT_EQ(request.error().param(), "zeta");
  EXPECT_TRUE(DecodeWith(R"("store":true,"user":"u")", /*strict=*/true));
}

TEST(Decode, ErrorsShowTheValueShortened) {
  const std::string secret(5000, 's');
  std::string text =
      Refusal(DecodeWith("\"reasoning_effort\":\"" + secret + '"'), "reasoning_effort");
  EXPECT_NE(text.find("ssss"), std::string::npos);
  EXPECT_LT(text.size(), 300u);
  text = Refusal(DecodeWith("\"stop\":[{\"private\":\"" + secret + "\"}]"), "stop[0]");
  EXPECT_EQ(text.find("sss"), std::string::npos);
  EXPECT_NE(text.find("an object"), std::string::npos);
  Result<DecodedRequest> model = Decode("{\"model\":\"" + secret + "\",\"messages\":[]}",
                                        {.model = kCard, .format = SampleFormat()});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), ErrorCode::kModelNotFound);
  EXPECT_LT(model.error().message().size(), 300u);
}

TEST(Decode, LogitBiasTakesIdsOfTheVocabulary) {
  Result<DecodedRequest> request = DecodeWith(R"("logit_bias":{"0":-100,"276":1.5})");
  ASSERT_TRUE(request) << request.status().ToString();
  ASSERT_EQ(request->sampling.logit_bias.size(), 2u);
  EXPECT_EQ(request->sampling.logit_bias[1].token, TokenId(276));
  EXPECT_EQ(request->sampling.logit_bias[1].bias, 1.5f);
  for (const char* bad :
       {R"({"277":1})", R"({"-1":1})", R"({"01":1})", R"({"a":1})", R"({"":1})", R"({"1":100.5})",
        R"({"1":"x"})", R"({"1":null})", R"({"99999999999":1})", "[]", "5"}) {
    Result<DecodedRequest> refused = DecodeWith(std::string("\"logit_bias\":") + bad);
    Refusal(refused, "logit_bias");
    EXPECT_EQ(refused.error().param(), "logit_bias") << bad;
  }
}

TEST(Decode, UserIdHasAnAlphabetAndUserALength) {
  EXPECT_EQ(DecodeWith(R"("user_id":"a_B-9","user":"me@x")")->user, "a_B-9");
  EXPECT_EQ(DecodeWith(R"("user":"me@x")")->user, "me@x");
  Refusal(DecodeWith(R"("user_id":"a b")"), "user_id");
  Refusal(DecodeWith(R"("user_id":"")"), "user_id");
  Refusal(DecodeWith("\"user_id\":\"" + std::string(513, 'a') + '"'), "user_id");
  EXPECT_TRUE(DecodeWith("\"user_id\":\"" + std::string(512, 'a') + '"'));
  Refusal(DecodeWith("\"user\":\"" + std::string(513, 'a') + '"'), "user");
}

TEST(Decode, EachListHasItsLimit) {
  auto tools = [](int n) {
    std::string list;
    for (int i = 0; i < n; ++i) {
      list += (i > 0 ? "," : "") +
              (R"({"type":"function","function":{"name":"t)" + std::to_string(i) + "\"}}");
    }
    return "\"tools\":[" + list + "]";
  };
  EXPECT_TRUE(DecodeWith(tools(128)));
  EXPECT_EQ(DecodeWith(tools(129)).error().param(), "tools");

  EXPECT_TRUE(DecodeWith("\"stop\":\"" + std::string(1024, 's') + '"'));
  EXPECT_EQ(DecodeWith("\"stop\":\"" + std::string(1025, 's') + '"').error().param(), "stop");

  auto messages = [](int64_t n) {
    std::string list = "[";
    for (int64_t i = 0; i < n; ++i)
      list += (i > 0 ? "," : "") + std::string(R"({"role":"user","content":"x"})");
    return DecodeMessages(list + "]");
  };
  EXPECT_TRUE(messages(limits::kMaxMessages));
  EXPECT_EQ(messages(limits::kMaxMessages + 1).error().param(), "messages");

  auto biases = [](int64_t n) {
    json bias = json::object();
    for (int64_t i = 0; i < n; ++i) bias[std::to_string(i)] = 0;
    return Decode(Body("\"logit_bias\":" + bias.dump()), {.model = kCard, .format = CutFormat()});
  };
  EXPECT_TRUE(biases(limits::kMaxLogitBias));
  EXPECT_EQ(biases(limits::kMaxLogitBias + 1).error().param(), "logit_bias");
}

TEST(Decode, MessagesBecomeTheConversation) {
  Result<DecodedRequest> request = DecodeMessages(R"([
    {"role":"developer","content":"rules"},
    {"role":"system","content":""},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"assistant","content":null,"reasoning":"why",
     "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}]},
    {"role":"tool","tool_call_id":"c1","content":"r"},
    {"role":"latest_reminder","content":"now"}])");
  ASSERT_TRUE(request) << request.status().ToString();
  const std::vector<Message>& messages = request->conversation.messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].role, Role::kSystem);
  EXPECT_TRUE(messages[0].is_developer);
  EXPECT_EQ(messages[1].text, "a\n\nb");
  EXPECT_EQ(messages[2].reasoning, "why");
  ASSERT_EQ(messages[2].calls.size(), 1u);
  EXPECT_EQ(messages[2].calls[0].arguments, "{");
  EXPECT_EQ(messages[3].tool_call_id, "c1");
  EXPECT_EQ(messages[4].role, Role::kLatestReminder);
}

TEST(Decode, ABillingLineIsCutFromASystemText) {
  auto system = [](const std::string& text) {
    json messages = {{{"role", "system"}, {"content", text}}, {{"role", "user"}, {"content", "x"}}};
    Result<DecodedRequest> request = DecodeMessages(messages.dump());
    EXPECT_TRUE(request);
    const Message& first = request->conversation.messages.front();
    return first.role == Role::kSystem ? first.text : "";
  };
  EXPECT_EQ(system("x-anthropic-billing-header: 1\n\n You are"), "You are");
  EXPECT_EQ(system("x-anthropic-billing-header: 1 You are kind"), "You are kind");
  EXPECT_EQ(system("x-anthropic-billing-header: 1"), "");
  EXPECT_EQ(system("X-anthropic-billing-header: 1\nA"), "X-anthropic-billing-header: 1\nA");
}

TEST(Decode, ToolsKeepWhatTheChoiceLeaves) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"a"}},
    {"type":"function","function":{"name":"b","parameters":null}},
    {"type":"function","function":{"name":"c","parameters":{"properties":{"x":{"type":"string"}}}}},
    {"type":"function","function":{"name":"d","parameters":{}}}])";
  auto decode = [&](const std::string& choice) { return DecodeWith(tools + choice); };
  Result<DecodedRequest> all = decode("");
  ASSERT_TRUE(all) << all.status().ToString();
  const std::vector<Tool>& offered = all->conversation.tools;
  ASSERT_EQ(offered.size(), 4u);
  EXPECT_EQ(offered[0].parameters, "");
  EXPECT_EQ(offered[1].parameters, "");
  EXPECT_EQ(offered[2].parameters, R"({"type":"object","properties":{"x":{"type":"string"}}})");
  EXPECT_EQ(offered[3].parameters, R"({"type":"object","properties":{}})");
  EXPECT_EQ(all->conversation.tool_choice, ToolChoice::kAuto);

  EXPECT_TRUE(decode(R"(,"tool_choice":"none")")->conversation.tools.empty());
  Result<DecodedRequest> named =
      decode(R"(,"tool_choice":{"type":"function","function":{"name":"b"}})");
  ASSERT_EQ(named->conversation.tools.size(), 1u);
  EXPECT_EQ(named->conversation.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(named->conversation.named_tool, "b");

  Result<DecodedRequest> allowed = decode(
      R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",
         "tools":[{"type":"function","function":{"name":"c"}},{"type":"function","name":"a"}]}})");
  ASSERT_TRUE(allowed) << allowed.status().ToString();
  EXPECT_EQ(allowed->conversation.tools.size(), 2u);
  EXPECT_EQ(allowed->conversation.tool_choice, ToolChoice::kRequired);
  Refusal(
      decode(R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"name":"zz"}]})"),
      "zz");
  Refusal(decode(R"(,"tool_choice":{"type":"allowed_tools","mode":"never","tools":[]})"),
          "tool_choice.mode");
}

TEST(Decode, AnImageStandsBetweenTheTextsAroundIt) {
  Result<DecodedRequest> request = DecodeMessages(
      R"([{"role":"user","content":[{"type":"text","text":"see"},
          {"type":"image_url","image_url":{"url":"HTTPS://a/b.png","detail":"low"}},
          {"type":"file","file":{"file_data":"data:image/png;base64,AAAA"}},
          {"type":"text","text":"it"}]}])");
  ASSERT_TRUE(request) << request.status().ToString();
  const Message& message = request->conversation.messages[0];
  EXPECT_EQ(message.text, "see\n\n\n\n\n\nit");
  ASSERT_EQ(message.images.size(), 2u);
  EXPECT_EQ(message.images[0].offset, 5u);
  EXPECT_TRUE(message.images[0].is_url);
  EXPECT_EQ(message.images[0].detail, ImageDetail::kLow);
  EXPECT_EQ(message.images[1].offset, 7u);
  EXPECT_FALSE(message.images[1].is_url);
  EXPECT_EQ(message.images[1].path, ".messages[0]");
  Refusal(
      DecodeMessages(R"([{"role":"user","content":[{"type":"file","file":{"file_data":"x"}}]}])"),
      "messages[0]");
}

TEST(Decode, ASchemaIsCheckedToItsLeaves) {
  auto with_schema = [](const std::string& schema) {
    return DecodeWith(R"("tools":[{"type":"function","function":{"name":"a","parameters":)" +
                      schema + "}}]");
  };
  EXPECT_TRUE(with_schema(
      R"({"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":true}})"));
  for (const char* bad :
       {R"({"type":"object","properties":[]})", R"({"type":"object","required":["a",1]})",
        R"({"type":"object","properties":{"a":{"anyOf":{}}}})",
        R"({"type":"object","properties":{"a":{"items":5}}})",
        R"({"type":"object","properties":{"a":{"minLength":-1}}})",
        R"({"type":"object","properties":{"a":{"minimum":"1"}}})",
        R"({"type":"object","properties":{"a":{"enum":"x"}}})",
        R"({"type":"object","properties":{"a":{"type":["string","strng"]}}})",
        R"({"type":"object","additionalProperties":"no"})", "[]", "\"object\"", "5"}) {
    Refusal(with_schema(bad), "'a'");
  }
}

TEST(Decode, AnEarlierCheckIsReportedFirst) {
  auto text = [](const std::string& body) {
    Result<DecodedRequest> request = Decode(body, {.model = kCard, .format = SampleFormat()});
    EXPECT_FALSE(request);
    return std::string(request.status().message());
  };
  // spec recipe.md §6.1: body shape, model, tool names, messages, …, numbers.
  EXPECT_NE(text(R"({"model":"no","messages":[],"stream":"x"})").find("stream"), std::string::npos);
  EXPECT_NE(text(R"({"model":"no","messages":[]})").find("supported API model names"),
            std::string::npos);
  EXPECT_NE(text(R"({"model":"deepseek-flash","messages":[],"tools":[{"function":{"name":""}}]})")
                .find("tools[0]"),
            std::string::npos);
  EXPECT_EQ(text(R"({"model":"deepseek-flash","messages":[],"n":0})"), "Empty input messages");
  EXPECT_NE(text(Body(R"("n":17,"temperature":9,"stop":"")")).find("stop"), std::string::npos);
  EXPECT_NE(text(Body(R"("n":17,"temperature":9)")).find("Invalid n"), std::string::npos);
}

TEST(Decode, SamplerFieldsAreReadWithExtensionsOnly) {
  const std::string members =
      R"("min_p":0.25,"repetition_penalty":1.5,"min_tokens":4,"stop_token_ids":[98,0])";
  Result<DecodedRequest> request = DecodeWith(members);
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(request->sampling.min_p, 0.25);
  EXPECT_EQ(request->sampling.repetition_penalty, 1.5);
  EXPECT_EQ(request->sampling.n_min, 4);
  EXPECT_EQ(request->stop_ids, (std::vector<TokenId>{TokenId(98), TokenId(0)}));
  EXPECT_TRUE(request->ignored_fields.empty());

  Profile reference = Profile::Reference();
  request = Decode(Body(members + R"(,"min_p":"x")"),
                   {.model = kCard, .format = SampleFormat(), .profile = reference});
  ASSERT_TRUE(request) << request.status().ToString();
  EXPECT_EQ(request->sampling.min_p, 0);
  EXPECT_EQ(request->sampling.repetition_penalty, 1);
  EXPECT_EQ(request->sampling.n_min, 0);
  EXPECT_TRUE(request->stop_ids.empty() && request->ignored_fields.empty());
}

}  // namespace
}  // namespace sluice::codec::chat
