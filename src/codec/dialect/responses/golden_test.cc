// The golden cases of Responses in testdata/ (its README says where they come from): refusals in
// both profiles, requests as conversations, answers from output events made by hand.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/dialect.h"
#include "codec/dialect/error_body.h"
#include "codec/dialect/responses/decode.h"
#include "codec/dialect/responses/encode.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec::responses {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;  // of requests: the order of fields reaches the prompt

std::vector<Ordered> Cases(const std::string& file) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/src/codec/testdata/" + file);
  EXPECT_TRUE(in.is_open()) << file;
  std::vector<Ordered> cases;
  for (std::string line; std::getline(in, line);) cases.push_back(Ordered::parse(line));
  EXPECT_FALSE(cases.empty()) << file;
  return cases;
}

std::string BodyOf(const Ordered& c) {
  if (c.contains("request_raw")) return c["request_raw"];
  // The one case whose body is no UTF-8.
  if (c.contains("request_base64")) return "{\"model\":\"deepseek-flash\",\"input\":\"\xFF\"}";
  return c["request"].dump();
}

const ModelCard kCard{.name = "deepseek-flash",
                      .aliases = {"DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"},
                      .reads_images = true};

Result<DecodedRequest> DecodeCase(const Ordered& c, Profile profile) {
  const Ordered options = c.value("options", Ordered::object());
  if (options.value("missing_reasoning", "") == "reject") profile.missing_reasoning_reject = true;
  if (options.value("responses_web_search", "") == "reject")
    profile.responses_web_search_drop = false;
  return Decode(BodyOf(c), {.model = kCard,
                            .format = SampleFormat(),
                            .default_thinking = options.value("default_thinking", true),
                            .profile = profile});
}

// The error that a client gets, as the cases write it.
json ErrorOf(const Status& status) {
  json body = json::parse(OpenAiErrorBody(status, "r"))["error"];
  body["status"] = RowOf(status.code()).http_status;
  return body;
}

void ExpectRefusal(const Ordered& c,
                   const Result<DecodedRequest>& request,
                   const Ordered& expected) {
  ASSERT_FALSE(request) << c["name"];
  const json error = ErrorOf(request.error());
  for (const char* key : {"status", "type", "code", "param"})
    EXPECT_EQ(error[key], json(expected[key])) << error;
  if (expected.value("message_binding", false)) {
    EXPECT_EQ(error["message"], json(expected["message"]));
  }
  EXPECT_LT(request.error().message().size(), 600u);
}

TEST(ResponsesGolden, TheReferenceProfileRefusesWithTheReferencesWords) {
  for (const Ordered& c : Cases("responses_reject.jsonl")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    // This reader takes a lone surrogate for U+FFFD in every profile.
    if (c["name"] == "responses/body/lone-surrogate") continue;
    ExpectRefusal(c, DecodeCase(c, Profile::Reference()), c["error"]);
  }
}

TEST(ResponsesGolden, TheDefaultProfileRefusesTheSameButForWhatIsOurs) {
  for (const Ordered& c : Cases("responses_reject.jsonl")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const std::string ours = c.value("ours", "");
    Result<DecodedRequest> request = DecodeCase(c, Profile());
    Ordered expected = c["error"];
    if (ours.starts_with("accept")) {
      EXPECT_TRUE(request) << request.status().ToString();
      continue;
    }
    if (!ours.empty()) {
      ASSERT_EQ(ours, "404, type invalid_request_error, code model_not_found, param model");
      expected["status"] = 404;
      expected["code"] = "model_not_found";
      expected["param"] = "model";
    }
    ExpectRefusal(c, request, expected);
  }
}

const char* NameOf(Role role) {
  constexpr const char* kNames[] = {"system", "user", "assistant", "tool", "reminder"};
  return kNames[static_cast<size_t>(role)];
}

Ordered ToJson(const Tool& tool) {
  Ordered j = {{"name", tool.name}, {"description", tool.description.value_or("")}};
  if (!tool.parameters.empty()) j["parameters"] = Ordered::parse(tool.parameters);
  if (tool.strict) j["strict"] = *tool.strict;
  if (tool.is_deferred) j["deferred"] = true;
  if (tool.kind != ToolKind::kFunction)
    j["kind"] = tool.kind == ToolKind::kCustom ? "custom" : "search";
  if (!tool.name_space.empty()) j["namespace"] = {tool.name_space, tool.bare_name};
  return j;
}

Ordered ToJson(const Message& message) {
  Ordered j = {{"role", NameOf(message.role)}, {"text", message.text}};
  for (const Image& image : message.images)
    j["images"].push_back({image.offset, image.is_url, image.path});
  for (const Tool& tool : message.tools) j["tools"].push_back(ToJson(tool));
  if (message.reasoning) j["reasoning"] = *message.reasoning;
  for (const ToolCall& call : message.calls)
    j["calls"].push_back({call.id, call.name, call.arguments});
  if (!message.tool_call_id.empty()) j["call_id"] = message.tool_call_id;
  if (message.is_developer) j["developer"] = true;
  return j;
}

Ordered ToJson(const Conversation& conversation) {
  constexpr const char* kChoices[] = {"none", "auto", "required", "named"};
  constexpr const char* kFormats[] = {"text", "json_object", "json_schema", "regex"};
  Ordered j = {{"messages", Ordered::array()},
               {"tool_choice", kChoices[static_cast<size_t>(conversation.tool_choice)]},
               {"thinking", conversation.thinking},
               {"effort", conversation.effort},
               {"format", kFormats[static_cast<size_t>(conversation.response_format)]}};
  for (const Message& message : conversation.messages) j["messages"].push_back(ToJson(message));
  for (const Tool& tool : conversation.tools) j["tools"].push_back(ToJson(tool));
  if (!conversation.response_schema.empty())
    j["schema"] = Ordered::parse(conversation.response_schema);
  return j;
}

Ordered Overlaid(const Ordered& c, const char* key) {
  Ordered value = c[key];
  if (c.contains("ours") && c["ours"].contains(key)) value.update(c["ours"][key]);
  return value;
}

TEST(ResponsesGolden, RequestsBecomeTheConversationWhosePromptTheReferenceWrites) {
  for (const Ordered& c : Cases("responses_encode.jsonl")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    for (const Profile& profile : {Profile::Reference(), Profile()}) {
      const bool is_ours = profile.extensions;
      Result<DecodedRequest> request = DecodeCase(c, profile);
      if (is_ours && c.contains("ours") && c["ours"].contains("reject")) {
        ExpectRefusal(c, request, c["ours"]["reject"]);
        continue;
      }
      ASSERT_TRUE(request) << request.status().ToString();
      EXPECT_EQ(ToJson(request->conversation), c["conversation"]);
      const Ordered params = is_ours ? Overlaid(c, "params") : c["params"];
      EXPECT_EQ(request->answer.thinking, params["thinking"].get<bool>());
      EXPECT_EQ(request->answer.stream, params["stream"].get<bool>());
      EXPECT_EQ(request->answer.logprobs, params["logprobs"].get<bool>());
      EXPECT_EQ(request->n_max_asked.value_or(0),
                params["max_tokens"].is_null() ? 0 : params["max_tokens"].get<int32_t>());
      if (is_ours) {
        EXPECT_EQ(request->sampling.temperature, params["temperature"].get<double>());
        EXPECT_EQ(request->sampling.top_p, params["top_p"].get<double>());
      }
    }
  }
}

// Feeds a case's output in pieces of `n` bytes (0: as it is) and returns the whole answer.
std::string Play(const json& c, const AnswerSpec& spec, size_t n) {
  Encoder encoder(spec, {.id = "7", .created = {}, .fingerprint = "fp", .entropy = 1});
  const json usage_json = c["response"]["usage"];
  const wire::Usage usage{.n_prompt = usage_json["input_tokens"],
                          .n_cached = usage_json["input_tokens_details"]["cached_tokens"],
                          .n_completion = usage_json["output_tokens"],
                          .n_reasoning = usage_json["output_tokens_details"]["reasoning_tokens"]};
  const std::map<std::string, OutputKind> kinds = {{"reasoning", OutputKind::kReasoning},
                                                   {"content", OutputKind::kContent},
                                                   {"call", OutputKind::kCall},
                                                   {"arguments", OutputKind::kArguments},
                                                   {"call_end", OutputKind::kCallEnd}};
  std::string out;
  encoder.Begin(0, usage, out);
  int32_t call = -1;
  for (const json& event : c["output_events"]) {
    const OutputKind kind = kinds.at(event[0]);
    const std::string text = event[1];
    if (kind == OutputKind::kCall) ++call;
    const std::string id = "call_0" + std::to_string(call) + "_x";
    const bool is_whole = kind == OutputKind::kCall || kind == OutputKind::kCallEnd || n == 0;
    for (size_t at = 0; at < std::max<size_t>(1, text.size());) {
      size_t end = is_whole ? text.size() : std::min(at + n, text.size());
      // Events hold whole characters.
      while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) ++end;
      encoder.OnEvent(0,
                      {.kind = kind,
                       .text = std::string_view(text).substr(at, end - at),
                       .logprobs = {},
                       .call = call,
                       .call_id = id},
                      out);
      at = std::max(end, at + 1);
    }
  }
  const json& finish = c["finish"];
  encoder.End(0,
              {.finish = finish == "length"           ? codec::Finish::kLength
                         : finish == "content_filter" ? codec::Finish::kContentFilter
                                                      : codec::Finish::kStop},
              nullptr, out);
  encoder.Finish(usage, out);
  return out;
}

// Takes away what the cases leave out (ids, times, numbers) and what they have a pattern for.
json Bare(json value) {
  if (value.is_array()) {
    for (json& element : value) element = Bare(element);
    return value;
  }
  if (!value.is_object()) return value;
  for (const char* key : {"id", "item_id", "sequence_number", "created_at"}) value.erase(key);
  if (value.contains("call_id"))
    value["call_id"] = value["call_id"].get<std::string>().substr(0, 8);
  if (value.contains("encrypted_content")) {
    EXPECT_FALSE(value["encrypted_content"].get<std::string>().empty());
    value["encrypted_content"] = "OPAQUE";
  }
  for (auto& [key, member] : value.items()) member = Bare(member);
  return value;
}

// Of a response in an event the cases hold only the members they have.
json Reduced(const json& whole, const json& like) {
  json reduced;
  for (const auto& [key, value] : like.items()) reduced[key] = whole.value(key, json());
  return reduced;
}

std::vector<json> EventsOf(const std::string& stream) {
  std::vector<json> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const size_t line = stream.find('\n', at);
    EXPECT_TRUE(stream.compare(at, 7, "event: ") == 0 &&
                stream.compare(line + 1, 6, "data: ") == 0);
    json data = json::parse(stream.substr(line + 7, end - line - 7));
    EXPECT_EQ(stream.substr(at + 7, line - at - 7), data["type"].get<std::string>());
    EXPECT_EQ(data["sequence_number"], events.size());
    events.push_back(std::move(data));
    at = end + 2;
  }
  return events;
}

// Adjacent deltas of one kind joined.
std::vector<json> Joined(const std::vector<json>& events) {
  std::vector<json> joined;
  for (const json& event : events) {
    const bool continues =
        event.contains("delta") && !joined.empty() && joined.back()["type"] == event["type"];
    if (continues) {
      joined.back()["delta"] =
          joined.back()["delta"].get<std::string>() + event["delta"].get<std::string>();
    } else {
      joined.push_back(event);
    }
  }
  return joined;
}

TEST(ResponsesGolden, OutputBecomesTheExpectedResponseAndStreamHoweverItIsCut) {
  for (const Ordered& golden : Cases("responses_decode.jsonl")) {
    const json c = golden;
    SCOPED_TRACE(c["name"].get<std::string>());
    Result<DecodedRequest> request = DecodeCase(golden, Profile::Reference());
    ASSERT_TRUE(request) << request.status().ToString();
    AnswerSpec spec = request->answer;
    for (size_t n : {0u, 1u, 2u, 3u, 5u}) {
      spec.stream = false;
      const json whole = json::parse(Play(c, spec, n));
      EXPECT_EQ(Bare(whole["output"]), Bare(c["response"]["output"]));
      for (const char* key : {"status", "incomplete_details", "usage"})
        EXPECT_EQ(whole[key], c["response"][key]);
      if (c.contains("response_object")) {
        json object = Bare(whole);
        object.erase("output");
        object["model"] = "MODEL";
        EXPECT_EQ(object, c["response_object"]);
      }

      spec.stream = true;
      const std::vector<json> events = EventsOf(Play(c, spec, n));
      const std::vector<json> joined = Joined(events);
      ASSERT_EQ(joined.size(), c["events"].size());
      for (size_t i = 0; i < joined.size(); ++i) {
        const json& expected = c["events"][i];
        json event = Bare(joined[i]);
        if (event.contains("response"))
          event["response"] = Reduced(event["response"], expected["response"]);
        EXPECT_EQ(event, Bare(expected)) << i;
      }
      EXPECT_EQ(events.back()["response"], whole);
    }
  }
}

TEST(ResponsesGolden, TheDefaultProfileAnswersAsTheReferenceButForWhatIsOurs) {
  for (const Ordered& golden : Cases("responses_decode.jsonl")) {
    const json c = golden;
    SCOPED_TRACE(c["name"].get<std::string>());
    Result<DecodedRequest> request = DecodeCase(golden, Profile());
    if (c.contains("ours") && c["ours"].contains("reject")) {
      ExpectRefusal(golden, request, golden["ours"]["reject"]);
      continue;
    }
    ASSERT_TRUE(request) << request.status().ToString();
    AnswerSpec spec = request->answer;
    spec.stream = false;
    const json whole = json::parse(Play(c, spec, 0));
    EXPECT_EQ(Bare(whole["output"]), Bare(c["response"]["output"]));
    if (c.contains("response_object")) {
      EXPECT_EQ(whole["tools"], c["response_object"]["tools"]);
      EXPECT_EQ(whole["text"], c["response_object"]["text"]);
    }
  }
}

}  // namespace
}  // namespace sluice::codec::responses
