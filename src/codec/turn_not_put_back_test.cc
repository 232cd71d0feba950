// Turns that came back otherwise, or should not be read again.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/turn_client_test_impl.h"

namespace sluice::codec::turn_test {
namespace {

class NotPutBack : public testing::Test {
 protected:
  NotPutBack() : server(Api::kChat), body(Chat::Body({})) {}

  // The answer is in the history as it came, and its tokens are in the prompt.
  void Answer(const std::string& text, Ending ending = {}) {
    sampled = Sampled(text);
    const std::string out = server.Answer(body, {sampled}, ending);
    cached = Cached(server.prompt, sampled);
    if (ending.is_complete) Chat::Add(out, {}, body);
  }
  bool IsPutBack() { return BeginsWith(server.PromptOf(body), cached); }

  const std::string good = kReasoning + "</think>" + kText + kCalls;
  Server server;
  json body;
  Ids sampled;
  Ids cached;
};

TEST_F(NotPutBack, WhatTheClientChanged) {
  Answer(good);
  ASSERT_TRUE(IsPutBack());
  const json sent = body;
  auto changed = [&](const char* place, const json& value) {
    body = sent;
    body[json::json_pointer(place)] = value;
    return !IsPutBack();
  };
  EXPECT_TRUE(changed("/messages/1/content", kText + "!"));
  EXPECT_TRUE(changed("/messages/1/reasoning_content", "Another thought."));
  EXPECT_TRUE(changed("/messages/1/tool_calls/0/function/name", "g"));
  EXPECT_TRUE(changed("/messages/1/tool_calls/1/function/arguments", R"({"a":1})"));
  EXPECT_TRUE(changed("/messages/1/tool_calls/1/function/arguments", ""));
  EXPECT_TRUE(changed("/messages/1/tool_calls/0/function/arguments",
                      R"({"path":"src/größe.cc","at":[1,2.5,{"b":61,"a":null}]})"));
  EXPECT_FALSE(changed("/messages/1/tool_calls/0/function/arguments",
                       R"({"at":[1,2.5,{"b":60,"a":null}],"path":"src/größe.cc"})"));
  // What stands before it, or what the model is to do.
  EXPECT_TRUE(changed("/messages/0/content", "Fix it!"));
  EXPECT_TRUE(changed("/messages/0/role", "system"));
  EXPECT_TRUE(changed("/thinking", {{"type", "disabled"}}));
  EXPECT_TRUE(changed("/reasoning_effort", "max"));
  EXPECT_TRUE(changed("/tools/1/function/description", "writes"));
  EXPECT_TRUE(changed("/tool_choice", "none")) << "tools are not shown, nor is reasoning";
  EXPECT_FALSE(changed("/messages/1/reasoning_content", nullptr));
  EXPECT_FALSE(changed("/temperature", 0.5));
}

TEST_F(NotPutBack, ForAnotherKeyOrWithoutTheMemory) {
  Answer(good);
  server.key = KeyId(2);
  EXPECT_FALSE(IsPutBack());
  server.key = KeyId(1);
  EXPECT_TRUE(IsPutBack());
  server.profile = Profile::Reference();
  EXPECT_FALSE(IsPutBack());
}

TEST_F(NotPutBack, WhatWasCutOrFailed) {
  Answer(kReasoning + "</think>" + kText, {.finish = wire::FinishReason::kLength});
  EXPECT_FALSE(IsPutBack());
  body = Chat::Body({});
  Answer(kReasoning + "</think>" + kText, {.finish = wire::FinishReason::kFiltered});
  EXPECT_FALSE(IsPutBack());
  body = Chat::Body({});
  Answer(good, {.finish = wire::FinishReason::kLength});
  EXPECT_FALSE(IsPutBack()) << "the calls ended at a limit";
  // The client went away before the end, and sends what it had seen.
  body = Chat::Body({});
  Answer(kReasoning + "</think>" + kText, {.is_complete = false});
  body["messages"].push_back({{"role", "assistant"}, {"content", kText}});
  body["messages"].push_back({{"role", "user"}, {"content", "Go on."}});
  EXPECT_FALSE(IsPutBack());
  EXPECT_EQ(server.memory.n_bytes(), 0);
}

TEST_F(NotPutBack, WhatAStopStringEnded) {
  body["stop"] = "look";
  Answer(kReasoning + "</think>" + kText);
  body.erase("stop");
  EXPECT_FALSE(IsPutBack());
  EXPECT_EQ(server.memory.n_bytes(), 0);
}

TEST_F(NotPutBack, WhatHadToBeRepairedOrIsOutOfPlace) {
  for (const std::string& text : {
           kReasoning + "</think>" + kText +
               "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name='f'>\n\n"
               "</｜DSML｜ invoke>\n</｜DSML｜ calls>",
           kReasoning + kCalls,
           kReasoning + "</think>" + kText + "<｜User｜>" + kText,
           kReasoning + "</think>" + kText + "</think>",
           kReasoning + "</think>" + kText + "<｜deepseek_image｜>",
           kReasoning,
       }) {
    body = Chat::Body({});
    Answer(text);
    EXPECT_FALSE(IsPutBack()) << text;
    EXPECT_EQ(server.memory.n_bytes(), 0) << text;
  }
}

// Reasoning is shown again only where tools are, so nothing is kept that no prompt would hold.
TEST_F(NotPutBack, AThinkingTurnWithoutTools) {
  body.erase("tools");
  Answer(kReasoning + "</think>" + kText);
  EXPECT_FALSE(IsPutBack());
  EXPECT_EQ(server.memory.n_bytes(), 0);
  server.profile.history_reasoning_always = true;
  body["messages"].erase(1);
  body["messages"].erase(1);
  Answer(kReasoning + "</think>" + kText);
  EXPECT_TRUE(IsPutBack());
}

// A client that leaves reasoning out to save room is not refused for what it left out.
TEST_F(NotPutBack, ATurnThatDoesNotFit) {
  Answer(good);
  body["messages"][1].erase("reasoning_content");
  ASSERT_TRUE(IsPutBack());
  const auto n_with = static_cast<int32_t>(server.PromptOf(body).size());
  body["max_tokens"] = 10;
  server.card.n_context = n_with + 10;
  EXPECT_TRUE(IsPutBack());
  server.card.n_context = n_with + 9;
  EXPECT_FALSE(IsPutBack());
  EXPECT_LT(server.PromptOf(body).size(), static_cast<size_t>(n_with) - 10);
  body.erase("max_tokens");
  EXPECT_TRUE(IsPutBack());
}

TEST_F(NotPutBack, APrefixThatTheAnswerContinues) {
  body.erase("tools");
  body["thinking"] = {{"type", "disabled"}};
  Answer(kText);
  ASSERT_TRUE(IsPutBack());
  body["messages"].erase(2);
  body["messages"][1]["prefix"] = true;
  const Ids prompt = server.PromptOf(body);
  EXPECT_FALSE(BeginsWith(prompt, Joined(server.prompt, sampled)));
  server.Answer(body, {Sampled(" Now go on and look at it.")});
  json next = Chat::Body({});
  next.erase("tools");
  next["thinking"] = {{"type", "disabled"}};
  next["messages"].push_back(
      {{"role", "assistant"}, {"content", kText + " Now go on and look at it."}});
  next["messages"].push_back({{"role", "user"}, {"content", "Go on."}});
  EXPECT_FALSE(
      BeginsWith(server.PromptOf(next), Joined(prompt, Sampled(" Now go on and look at it."))));
}

}  // namespace
}  // namespace sluice::codec::turn_test
