#include "codec/script_book.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "codec/sample_format_test_impl.h"

namespace sluice::codec {
namespace {

constexpr int32_t kVocabulary = 256;

ScriptBook Parse(std::string_view text) {
  Result<ScriptBook> book = ScriptBook::Parse(text, kVocabulary);
  EXPECT_TRUE(book) << book.status().ToString();
  return std::move(*book);
}

std::string ErrorOf(std::string_view text) {
  Result<ScriptBook> book = ScriptBook::Parse(text, kVocabulary);
  return book ? "accepted" : std::string(book.error().message());
}

DecodedRequest Ask(std::string_view user, bool thinking = true) {
  DecodedRequest request;
  request.conversation.thinking = thinking;
  request.conversation.messages.push_back({.role = Role::kUser, .text = std::string(user)});
  return request;
}

std::string TextOf(const std::vector<TokenId>& ids) {
  std::string text;
  for (TokenId id : ids) text += SampleFormat().text(id);
  return text;
}

std::string Take(ScriptBook& book, const DecodedRequest& request, std::string_view api = "chat") {
  return TextOf(book.Choose(api, request, SampleFormat())->ids);
}

TEST(ScriptBook, PlaysPlainLinesInOrderAndThenSaysThatItIsExhausted) {
  ScriptBook book = Parse("\"a</think>b\"\n\n// note\n{\"out\": \"c\"}\r\n");
  EXPECT_EQ(Take(book, Ask("x")), "a</think>b");
  EXPECT_EQ(Take(book, Ask("x")), "c");
  EXPECT_EQ(Take(book, Ask("x")), "</think>SCRIPT EXHAUSTED");
  EXPECT_EQ(Take(book, Ask("x", false)), "SCRIPT EXHAUSTED");
}

TEST(ScriptBook, WithoutThinkingTheReasoningIsDropped) {
  ScriptBook book = Parse("\"r</think>a</think>b\"\n\"plain\"");
  EXPECT_EQ(Take(book, Ask("x", false)), "a</think>b");
  EXPECT_EQ(Take(book, Ask("x", false)), "plain");
}

TEST(ScriptBook, CompletionsGetTheTextBehindTheLastMark) {
  ScriptBook book = Parse("\"r</think>a</think>b\"\n\"all\"");
  EXPECT_EQ(Take(book, Ask("x"), "completions"), "b");
  EXPECT_EQ(Take(book, Ask("x"), "completions"), "all");
}

TEST(ScriptBook, IdsAreTakenAsTheyAre) {
  ScriptBook book = Parse(R"({"ids": [60, 47, 0, 255]})");
  auto play = book.Choose("chat", Ask("x", false), SampleFormat());
  ASSERT_EQ(play->ids.size(), 4u);
  EXPECT_EQ(play->ids[3], TokenId(255));
}

TEST(ScriptBook, TheFirstLineWhoseConditionsHoldIsTaken) {
  ScriptBook book = Parse(R"({"when": {"api": "messages"}, "out": "messages"}
{"when": {"tools": true}, "out": "tools", "times": "always"}
{"when": {"tool": "bash"}, "out": "bash"}
{"when": {"last": "[[busy]]"}, "out": "last"}
{"when": {"prompt": "secret word"}, "out": "prompt"}
{"when": {"tools": false, "api": "chat"}, "out": "rest", "times": "always"})");
  DecodedRequest with_tool = Ask("x");
  with_tool.conversation.tools.push_back({.name = "bash"});
  EXPECT_EQ(Take(book, with_tool), "tools");
  EXPECT_EQ(Take(book, Ask("now [[busy]] now")), "last");
  EXPECT_EQ(Take(book, Ask("now [[busy]] now")), "rest");
  EXPECT_EQ(Take(book, Ask("the secret word")), "prompt");
  EXPECT_EQ(Take(book, Ask("x"), "messages"), "messages");
}

TEST(ScriptBook, AToolIsFoundByItsName) {
  ScriptBook book = Parse("{\"when\": {\"tool\": \"bash\"}, \"out\": \"bash\"}\n\"other\"");
  DecodedRequest request = Ask("x");
  request.conversation.tools.push_back({.name = "bashful"});
  EXPECT_EQ(Take(book, request), "other");
  request.conversation.tools.push_back({.name = "bash"});
  EXPECT_EQ(Take(book, request), "bash");
}

TEST(ScriptBook, LastLooksIntoTheNewestMessageOfTheUsersSide) {
  const std::string line = R"({"when": {"last": "MARK"}, "out": "yes", "times": "always"})";
  ScriptBook book = Parse(line + "\n{\"out\": \"no\", \"times\": \"always\"}");
  DecodedRequest request = Ask("MARK");
  request.conversation.messages.push_back({.role = Role::kAssistant, .text = "x"});
  EXPECT_EQ(Take(book, request), "yes");
  request.conversation.messages.push_back({.role = Role::kSystem, .text = "MARK or not"});
  EXPECT_EQ(Take(book, request), "yes");
  request.conversation.messages.push_back({.role = Role::kTool, .text = "result"});
  EXPECT_EQ(Take(book, request), "no");
  request.conversation.messages.push_back(
      {.role = Role::kSystem, .text = "MARK", .is_developer = true});
  EXPECT_EQ(Take(book, request), "yes");
}

TEST(ScriptBook, PromptLooksIntoToolsAndCallsToo) {
  ScriptBook book = Parse(R"({"when": {"prompt": "needle"}, "out": "yes", "times": "always"})");
  DecodedRequest request = Ask("x");
  EXPECT_EQ(Take(book, request), "</think>SCRIPT EXHAUSTED");
  request.conversation.tools.push_back({.name = "f", .parameters = R"({"needle": 1})"});
  EXPECT_EQ(Take(book, request), "yes");
}

TEST(ScriptBook, TimingAndFaultsTravelWithTheLine) {
  ScriptBook book = Parse(
      R"({"out": "abc", "tokens_per_event": 2, "pace_ms": 1.5, "first_ms": 250, "hang_after": 2,)"
      R"( "logprob": -0.5, "cached_tokens": 7})");
  auto play = book.Choose("chat", Ask("x"), SampleFormat());
  EXPECT_EQ(play->n_per_event, 2);
  EXPECT_EQ(play->pace, Duration::Micros(1500));
  EXPECT_EQ(play->first, Duration::Millis(250));
  EXPECT_EQ(play->fault, wire::ScriptPlay::Fault::kHang);
  EXPECT_EQ(play->fault_after, 2);
  EXPECT_EQ(play->logprob, -0.5f);
  EXPECT_EQ(play->n_cached, 7);
  EXPECT_TRUE(play->refuse.ok());
}

TEST(ScriptBook, RefusalsHaveTheirCodeAndTheirTime) {
  ScriptBook book = Parse(R"({"refuse": "rate_limit", "retry_after_ms": 1200}
{"refuse": "overloaded"}
{"refuse": "internal"}
{"refuse": "context"})");
  auto next = [&] { return book.Choose("chat", Ask("x"), SampleFormat())->refuse; };
  Status status = next();
  EXPECT_EQ(status.code(), ErrorCode::kRateLimited);
  EXPECT_EQ(status.retry_after(), Duration::Millis(1200));
  status = next();
  EXPECT_EQ(status.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(status.retry_after(), Duration::Seconds(1));
  EXPECT_EQ(next().code(), ErrorCode::kInternal);
  EXPECT_EQ(next().code(), ErrorCode::kContextLength);
}

TEST(ScriptBook, ErrorsNameTheLineTheKeyAndTheNearestKnownOne) {
  EXPECT_EQ(ErrorOf("\"a\"\n\n{\"out\": \"b\", \"pacems\": 1}"),
            "line 3: unknown key \"pacems\"; the nearest known one is \"pace_ms\"");
  EXPECT_EQ(ErrorOf(R"({"out": "b", "when": {"tol": "x"}})"),
            "line 1: unknown condition in \"when\" \"tol\"; the nearest known one is \"tool\"");
  EXPECT_EQ(ErrorOf(R"({"ids": [1, 256]})"),
            "line 1: \"ids[1]\" must be an integer from 0 to 255, not the number 256");
  EXPECT_EQ(
      ErrorOf(R"({"out": "b", "pace_ms": -1})"),
      "line 1: \"pace_ms\" must be a number of milliseconds from 0 to 86400000, not the number -1");
  EXPECT_EQ(ErrorOf(R"({"out": "b", "fail_after": 1, "die_after": 1})"),
            "line 1: \"fail_after\" and \"die_after\" exclude each other");
  EXPECT_EQ(ErrorOf(R"({"refuse": "busy"})"),
            "line 1: \"refuse\" must be one of rate_limit, overloaded, internal, context, not the "
            "string \"busy\"");
}

TEST(ScriptBook, ALineHasExactlyOneOutput) {
  const std::string message = "line 1: a line has exactly one of \"out\", \"ids\", \"refuse\"";
  EXPECT_EQ(ErrorOf("{}"), message);
  EXPECT_EQ(ErrorOf(R"({"out": "a", "ids": [1]})"), message);
  EXPECT_EQ(ErrorOf(R"({"ids": [1], "refuse": "internal"})"), message);
  EXPECT_EQ(ErrorOf(R"({"ids": []})"), "accepted");
}

TEST(ScriptBook, WrongTypesAreErrors) {
  for (const char* line :
       {"5", "[\"a\"]", "{\"out\": 1}", "{\"out\": \"a\", \"times\": -1}",
        "{\"out\": \"a\", \"times\": \"ever\"}", "{\"out\": \"a\", \"tokens_per_event\": 0}",
        "{\"out\": \"a\", \"logprob\": 0.5}", "{\"out\": \"a\", \"when\": []}",
        "{\"out\": \"a\", \"when\": {\"tools\": \"yes\"}}",
        "{\"out\": \"a\", \"when\": {\"api\": \"grpc\"}}", "{\"out\": \"a\", \"first_ms\": 1e99}",
        "{\"out\": \"a\", \"fail_after\": 1.5}", "{\"out\"", "\"\xFF\""}) {
    EXPECT_TRUE(ErrorOf(line).starts_with("line 1: ")) << line << " -> " << ErrorOf(line);
  }
}

TEST(ScriptBook, ALineWithZeroTimesIsNeverTaken) {
  ScriptBook book = Parse("{\"out\": \"a\", \"times\": 0}\n\"b\"");
  EXPECT_EQ(Take(book, Ask("x")), "b");
}

TEST(ScriptBook, TwoThreadsNeverTakeTheSameUse) {
  constexpr int kUses = 2000;
  ScriptBook book = Parse("{\"out\": \"a\", \"times\": " + std::to_string(kUses) + "}");
  std::atomic<int> n_taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      DecodedRequest request = Ask("x");
      for (int i = 0; i < kUses; ++i) {
        if (book.Choose("chat", request, SampleFormat())->ids.size() == 1) ++n_taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_taken, kUses);
}

}  // namespace
}  // namespace sluice::codec
