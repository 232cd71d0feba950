// What the golden cases do not cover: heartbeats, errors, cut calls, the exact bytes.

#include "codec/dialect/messages/encode.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::codec::messages {
namespace {

using nlohmann::json;

AnswerSpec Spec(bool is_stream, bool thinking = false) {
  AnswerSpec spec;
  spec.model = "claude \"x\"";
  spec.thinking = thinking;
  spec.start = thinking ? OutputStart::kReasoning : OutputStart::kContent;
  spec.stream = is_stream;
  spec.n_prompt = 9;
  return spec;
}

const AnswerIdentity kIdentity{.id = "abc", .created = {}, .fingerprint = ""};

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

TEST(MessagesEncode, StreamsTheDocumentedFrames) {
  const AnswerSpec spec = Spec(true);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, {.n_prompt = 9, .n_cached = 4}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kContent, .text = "a\"\n"}, out);
  const wire::Usage total{.n_prompt = 9, .n_cached = 4, .n_completion = 3};
  encoder.End(0, {.finish = Finish::kStopString, .stop = "\"!"}, &total, out);
  encoder.Finish(total, out);
  EXPECT_EQ(
      out,
      "event: message_start\ndata: "
      R"({"type":"message_start","message":{"id":"msg_abc","type":"message","role":"assistant",)"
      R"("model":"claude \"x\"","content":[],"stop_reason":null,"stop_sequence":null,)"
      R"("usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,)"
      R"("output_tokens":0,"service_tier":"standard"}}})"
      "\n\nevent: content_block_start\ndata: "
      R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
      "\n\nevent: ping\ndata: {\"type\":\"ping\"}"
      "\n\nevent: content_block_delta\ndata: "
      R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\"\n"}})"
      "\n\nevent: content_block_stop\ndata: "
      R"({"type":"content_block_stop","index":0})"
      "\n\nevent: message_delta\ndata: "
      R"({"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"\"!"},)"
      R"("usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,)"
      R"("output_tokens":3,"service_tier":"standard"}})"
      "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

// SDKs raise at anything in front of message_start.
TEST(MessagesEncode, ASignOfLifeBeforeTheFirstTokenIsBehindMessageStart) {
  const AnswerSpec spec = Spec(true);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Heartbeat(out);
  EXPECT_TRUE(out.starts_with("event: message_start\n"));
  EXPECT_TRUE(out.ends_with(kPing));
  EXPECT_NE(out.find(R"("input_tokens":9)"), std::string::npos);
  out.clear();
  encoder.Heartbeat(out);
  EXPECT_EQ(out, kPing);
  out.clear();
  encoder.Begin(0, {.n_prompt = 9}, out);
  EXPECT_EQ(out, "");
}

TEST(MessagesEncode, ASignOfLifeOfAWholeAnswerIsABlankLine) {
  const AnswerSpec spec = Spec(false);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Heartbeat(out);
  EXPECT_EQ(out, "\n");
}

TEST(MessagesEncode, AnErrorInAStreamIsAnEventAndTheEnd) {
  const AnswerSpec spec = Spec(true);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Fail(Status(ErrorCode::kOverloaded, "too much"), "req_7", out);
  EXPECT_EQ(out,
            "event: error\ndata: "
            R"({"type":"error","error":{"type":"overloaded_error","message":"too much"},)"
            R"("request_id":"req_7"})"
            "\n\n");
}

TEST(MessagesEncode, TheTextOfAnInternalErrorStaysInside) {
  const std::string body = ErrorBody(Status(ErrorCode::kInternal, "secret"), "req_7");
  EXPECT_EQ(body.find("secret"), std::string::npos);
  EXPECT_EQ(json::parse(body)["error"]["type"], "api_error");
}

// This API has no codes; one is added where several reasons share a type.
TEST(MessagesEncode, AReasonOfItsOwnIsTold) {
  Status status(ErrorCode::kOverloaded, "full");
  EXPECT_FALSE(json::parse(ErrorBody(status, "req_7"))["error"].contains("code"));
  status.set_api_code("queue_full");
  EXPECT_EQ(json::parse(ErrorBody(status, "req_7"))["error"]["code"], "queue_full");
}

std::string PlayCall(bool is_stream, bool ends, Finish finish) {
  const AnswerSpec spec = Spec(is_stream);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, {.n_prompt = 9}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kCall, .text = "f", .call_id = "call_1"}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kArguments, .text = ends ? "{}" : "{\"a\""}, out);
  if (ends) encoder.OnEvent(0, {.kind = OutputKind::kCallEnd}, out);
  const wire::Usage total{.n_prompt = 9, .n_completion = 3};
  encoder.End(0, {.finish = finish}, is_stream ? &total : nullptr, out);
  encoder.Finish(total, out);
  return out;
}

// A client that runs what it could read of a cut call must be able to see that it is cut.
TEST(MessagesEncode, ACutCallIsNeverOneToBeMade) {
  EXPECT_EQ(json::parse(PlayCall(false, true, Finish::kToolCalls))["stop_reason"], "tool_use");
  json cut = json::parse(PlayCall(false, false, Finish::kToolCalls));
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  EXPECT_EQ(cut["content"][0]["input"], json::object());
  EXPECT_NE(PlayCall(true, false, Finish::kToolCalls).find(R"("stop_reason":"max_tokens")"),
            std::string::npos);
  EXPECT_NE(PlayCall(true, true, Finish::kToolCalls).find(R"("stop_reason":"tool_use")"),
            std::string::npos);
}

TEST(MessagesEncode, AWholeAnswerIsHeldAndCounted) {
  const AnswerSpec spec = Spec(false);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, {.n_prompt = 9}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kContent, .text = "12345"}, out);
  EXPECT_EQ(encoder.held_bytes(), 5);
  EXPECT_EQ(out, "");
}

// Case C22: thinking stands in a block of its own in front of the text.
TEST(MessagesEncode, C22ThinkingIsTheFirstBlock) {
  const AnswerSpec spec = Spec(false, /*thinking=*/true);
  Encoder encoder(spec, kIdentity);
  std::string out;
  encoder.Begin(0, {.n_prompt = 9}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kReasoning, .text = "why"}, out);
  encoder.OnEvent(0, {.kind = OutputKind::kContent, .text = "so"}, out);
  encoder.End(0, {}, nullptr, out);
  encoder.Finish({}, out);
  const json content = json::parse(out)["content"];
  EXPECT_EQ(content[0]["type"], "thinking");
  EXPECT_EQ(content[0]["thinking"], "why");
  EXPECT_EQ(content[1], (json{{"type", "text"}, {"text", "so"}}));
}

}  // namespace
}  // namespace sluice::codec::messages
