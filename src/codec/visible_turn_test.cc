#include "codec/visible_turn.h"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"

namespace sluice::codec {
namespace {

TEST(VisibleTurn, ArgumentsHaveOneForm) {
  struct Row {
    const char* written;
    const char* canonical;
  };
  for (const Row& row : {
           Row{"{}", "{}"},
           Row{" { } ", "{}"},
           Row{R"({"b": 1, "a": {"d": [1, 2], "c": null}})", R"({"a":{"c":null,"d":[1,2]},"b":1})"},
           Row{R"({"a":[3,1,2]})", R"({"a":[3,1,2]})"},
           Row{R"({"a": 1, "b": 2, "a": 3})", R"({"a":3,"b":2})"},
           Row{R"({"a": "\u00e9\/\n"})", "{\"a\":\"é/\\n\"}"},
           // Numbers as JavaScript prints them.
           Row{R"({"a":[1.0,1e3,-0.0,0,2.50,1e-7]})", R"({"a":[1,1000,0,0,2.5,1e-07]})"},
           Row{R"({"a":9007199254740991.0})", R"({"a":9007199254740991})"},
           Row{R"({"a":[9007199254740993,18446744073709551615]})",
               R"({"a":[9007199254740993,18446744073709551615]})"},
           Row{R"({"a":"1"})", R"({"a":"1"})"},
           // What is not one object is the text that it is.
           Row{"", R"("")"},
           Row{"null", R"("null")"},
           Row{"[1, 2]", R"("[1, 2]")"},
           Row{"{\"a\": ", R"("{\"a\": ")"},
           Row{R"({"a":"\ud800"})", R"("{\"a\":\"\\ud800\"}")"},
       }) {
    EXPECT_EQ(CanonicalArguments(row.written), row.canonical) << row.written;
  }
}

TEST(VisibleTurn, ArgumentsOfAnyAllowedDepthAreRead) {
  const auto depth = static_cast<size_t>(limits::kMaxJsonDepth) - 1;
  const std::string text = "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  EXPECT_EQ(CanonicalArguments(text), text);
  EXPECT_EQ(CanonicalArguments("{\"a\":[" + text.substr(5)).front(), '"');
}

Message Turn(std::string text, std::vector<ToolCall> calls = {}) {
  return {.role = Role::kAssistant, .text = std::move(text), .calls = std::move(calls)};
}

ToolCall Call(std::string name, std::string arguments, std::string id = "call_1") {
  return {.id = std::move(id), .name = std::move(name), .arguments = std::move(arguments)};
}

TEST(VisibleTurn, IsTheSameHoweverAClientWritesItDown) {
  const Digest digest = VisibleDigest(Turn("hi", {Call("f", R"({"a": 1, "b": "x"})")}));
  EXPECT_EQ(VisibleDigest(Turn("\nhi \t\n", {Call("f", R"({"b":"x","a":1.0})", "toolu_9")})),
            digest);
  Message with_reasoning = Turn("hi", {Call("f", R"({"a": 1, "b": "x"})")});
  with_reasoning.reasoning = "so";
  EXPECT_EQ(VisibleDigest(with_reasoning), digest);
}

TEST(VisibleTurn, DiffersByAllThatAModelReads) {
  const std::vector<Message> turns = {
      Turn(""),
      Turn("hi"),
      Turn("h i"),
      Turn("hi", {Call("f", "{}")}),
      Turn("", {Call("f", "{}")}),
      Turn("", {Call("g", "{}")}),
      Turn("", {Call("f", R"({"a":1})")}),
      Turn("", {Call("f", R"({"a":"1"})")}),
      Turn("", {Call("f", R"({"a":1.5})")}),
      Turn("", {Call("f", R"({"b":1})")}),
      Turn("", {Call("f", "\"{}\"")}),
      Turn("", {Call("f", "{} {}")}),
      Turn("", {Call("f", "{}"), Call("g", "{}")}),
      Turn("", {Call("g", "{}"), Call("f", "{}")}),
      Turn("f", {Call("", "{}")}),
  };
  for (size_t i = 0; i < turns.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(VisibleDigest(turns[i]), VisibleDigest(turns[j])) << i << " and " << j;
    }
  }
}

TEST(VisibleTurn, ReasoningIsComparedWithoutTheWhiteSpaceAroundIt) {
  Message turn = Turn("hi");
  EXPECT_FALSE(HasReasoning(turn));
  const Digest none = ReasoningDigest(turn);
  turn.reasoning = " \n";
  EXPECT_FALSE(HasReasoning(turn));
  EXPECT_EQ(ReasoningDigest(turn), none);
  turn.reasoning = "so";
  EXPECT_TRUE(HasReasoning(turn));
  const Digest so = ReasoningDigest(turn);
  EXPECT_NE(so, none);
  turn.reasoning = "so\n\n";
  EXPECT_EQ(ReasoningDigest(turn), so);
  turn.reasoning = "so!";
  EXPECT_NE(ReasoningDigest(turn), so);
}

}  // namespace
}  // namespace sluice::codec
