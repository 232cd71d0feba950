#include "load/workload.h"

#include <gtest/gtest.h>

#include <map>

#include "base/json.h"

namespace sluice::load {
namespace {

// Files that exist only here.
class OneFile : public FileSystem {
 public:
  explicit OneFile(std::string text) : text_(std::move(text)) {}
  Result<std::string> ReadWhole(std::string_view, int64_t) override { return text_; }
  Result<MappedFile> Map(std::string_view) override { return None(); }
  Result<int64_t> Size(std::string_view) override { return None(); }
  Result<std::vector<std::string>> List(std::string_view) override { return None(); }
  Result<WallTime> ModifiedAt(std::string_view) override { return None(); }

 private:
  static Status None() { return Status(ErrorCode::kUnsupported, "nothing but a text"); }
  const std::string text_;
};

Workload Open(const LoadOptions& options, std::string text = "") {
  OneFile files(std::move(text));
  Result<Workload> workload = Workload::Open(files, options);
  EXPECT_TRUE(workload.has_value()) << workload.status().ToString();
  return std::move(*workload);
}

std::string FirstBody(const Workload& workload, int64_t number) {
  Workload::History history;
  return workload.Next(number, 0, history)->body;
}

std::string PromptOf(const std::string& body) {
  const Result<Json> json = Json::Parse(body);
  for (const JsonValue message : json->root().Find("messages").elements()) {
    return std::string(message.Find("content").AsString());
  }
  return "";
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) c == ' ' ? (void)words.emplace_back() : words.back().push_back(c);
  return words;
}

TEST(Workload, SyntheticPromptsShareTheirPrefixAndNothingElse) {
  const Workload workload = Open({.input_tokens = 100, .shared_prefix = 0.25});
  const auto one = WordsOf(PromptOf(FirstBody(workload, 0)));
  const auto two = WordsOf(PromptOf(FirstBody(workload, 1)));
  ASSERT_EQ(one.size(), 100u);
  ASSERT_EQ(two.size(), 100u);
  const std::vector<std::string> head(one.begin(), one.begin() + 25);
  EXPECT_EQ(std::vector<std::string>(two.begin(), two.begin() + 25), head);
  EXPECT_NE(std::vector<std::string>(two.begin() + 25, two.begin() + 35),
            std::vector<std::string>(one.begin() + 25, one.begin() + 35));
}

TEST(Workload, TheSeedDecidesSyntheticPrompts) {
  EXPECT_EQ(FirstBody(Open({.seed = 3}), 7), FirstBody(Open({.seed = 3}), 7));
  EXPECT_NE(FirstBody(Open({.seed = 3}), 7), FirstBody(Open({.seed = 4}), 7));
}

TEST(Workload, RequestsOfAFileAreMadeToStreamAndSentInTurn) {
  const Workload workload =
      Open({.requests_file = "f"},
           "{\"messages\":[],\"stream\":false,\"max_tokens\":5}\n\n{\"messages\":[1],\"n\":2,"
           "\"max_tokens\":5}\r\n");
  ASSERT_EQ(workload.n_lines(), 2);
  EXPECT_EQ(FirstBody(workload, 2), R"({"messages":[],"max_tokens":5,"stream":true,)"
                                    R"("stream_options":{"include_usage":true}})");
  Workload::History history;
  EXPECT_EQ(workload.Next(0, 0, history)->n_max, 5);
  EXPECT_EQ(workload.Next(1, 0, history)->n_max, 0);  // each of two choices may have five
}

constexpr std::string_view kTrace =
    R"({"system":"be brief","tools":[{"type":"function"}],"turns":[{"user":"list"},)"
    R"({"tool_result":"a b","think_ms":1500,"max_tokens":7},{"user":"thanks"}]})";

TEST(Workload, ATraceSendsTheEarlierAnswersBack) {
  const Workload workload = Open({.trace = "t"}, std::string(kTrace));
  ASSERT_EQ(workload.n_turns(0), 3);
  EXPECT_EQ(workload.think(0, 1), Duration::Millis(1'500));
  Workload::History history;
  const auto first = workload.Next(0, 0, history);
  EXPECT_TRUE(first->keeps_answer);
  EXPECT_EQ(first->body,
            R"({"model":"deepseek-flash","stream":true,"tools":[{"type":"function"}],)"
            R"("stream_options":{"include_usage":true},"messages":[{"role":"system","content":)"
            R"("be brief"},{"role":"user","content":"list"}]})");
  history.last = {.reasoning = "hm", .text = "", .calls = {{"c1", "ls", "{}"}}};
  const auto second = workload.Next(0, 1, history);
  EXPECT_EQ(second->n_max, 7);
  EXPECT_NE(second->body.find(
                R"({"role":"user","content":"list"},{"role":"assistant","content":"",)"
                R"("reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":)"
                R"({"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1",)"
                R"("content":"a b"}])"),
            std::string::npos)
      << second->body;
  history.last = {.text = "done"};
  const auto third = workload.Next(0, 2, history);
  EXPECT_FALSE(third->keeps_answer);
  EXPECT_NE(third->body.find(R"({"role":"assistant","content":"done"},{"role":"user")"),
            std::string::npos);
}

TEST(Workload, AResultWithoutACallIsSaidByTheUser) {
  const Workload workload = Open({.trace = "t"}, std::string(kTrace));
  Workload::History history;
  (void)workload.Next(0, 0, history);
  history.last = {.text = "no"};
  EXPECT_NE(workload.Next(0, 1, history)->body.find(R"({"role":"user","content":"a b"}])"),
            std::string::npos);
}

TEST(Workload, CallsWithoutAResultGetOneBeforeTheUserGoesOn) {
  const std::string trace = R"({"turns":[{"user":"a"},{"user":"b"}]})";
  const std::map<Api, std::string> wanted = {
      {Api::kChat, R"({"role":"tool","tool_call_id":"c","content":"not run"},)"
                   R"({"role":"user","content":"b"}])"},
      {Api::kMessages, R"([{"type":"tool_result","tool_use_id":"c","content":"not run"},)"
                       R"({"type":"text","text":"b"}]}])"},
      {Api::kResponses, R"({"type":"function_call_output","call_id":"c","output":"not run"},)"
                        R"({"role":"user","content":"b"}])"}};
  for (const auto& [api, want] : wanted) {
    const Workload workload = Open({.api = api, .trace = "t"}, trace);
    Workload::History history;
    (void)workload.Next(0, 0, history);
    history.last = {.calls = {{"c", "ls", "{}"}}};
    const std::string body = workload.Next(0, 1, history)->body;
    EXPECT_NE(body.find(want), std::string::npos) << body;
  }
}

TEST(Workload, EveryApiHasItsOwnHistory) {
  for (const Api api : {Api::kMessages, Api::kResponses}) {
    const Workload workload = Open({.api = api, .trace = "t"}, std::string(kTrace));
    Workload::History history;
    (void)workload.Next(0, 0, history);
    history.last = {.text = "x", .calls = {{"c1", "ls", "{}"}}};
    if (api == Api::kResponses) history.last.items = {R"({"type":"function_call"})"};
    const std::string body = workload.Next(0, 1, history)->body;
    EXPECT_TRUE(Json::Parse(body).has_value()) << body;
    const std::string_view want =
        api == Api::kMessages
            ? R"({"type":"tool_use","id":"c1","name":"ls","input":{}}]},{"role":"user","content":)"
              R"([{"type":"tool_result","tool_use_id":"c1","content":"a b"}]})"
            : R"({"type":"function_call"},{"type":"function_call_output","call_id":"c1",)"
              R"("output":"a b"})";
    EXPECT_NE(body.find(want), std::string::npos) << body;
  }
}

TEST(Trace, AMistakeIsNamedByLineTurnAndKey) {
  const std::map<std::string, std::string> cases = {
      {"", "no conversation"},
      {"\n{", "line 2"},
      {"[]", "line 1: must be a JSON object"},
      {R"({"turns":[]})", "line 1: turns"},
      {R"({"turns":[{"user":"a"}],"turn":1})", "unknown key turn"},
      {R"({"turns":[{"user":"a","thinks_ms":1}]})", "turn 1: unknown key thinks_ms"},
      {R"({"turns":[{"user":"a"},{"user":"a","tool_result":"b"}]})", "turn 2: a turn has one"},
      {R"({"turns":[{"tool_result":"a"}]})", "turn 1: the first turn"},
      {R"({"turns":[{"user":1}]})", "user must be a string"},
      {R"({"turns":[{"user":"a","think_ms":-1}]})", "think_ms"},
      {R"({"turns":[{"user":"a","think_ms":1e99}]})", "think_ms"},
      {R"({"turns":[{"user":"a","max_tokens":0}]})", "max_tokens"},
      {R"({"turns":[{"user":"a"}],"tools":{}})", "tools must be a list"},
      {R"({"turns":[{"user":"a"}],"system":[]})", "system must be a string"},
  };
  for (const auto& [text, want] : cases) {
    const auto trace = ParseTrace(text);
    ASSERT_FALSE(trace.has_value()) << text;
    EXPECT_NE(trace.error().message().find(want), std::string_view::npos)
        << text << " -> " << trace.error().message();
  }
}

TEST(Target, IsHostAndPort) {
  const auto v6 = ParseTarget("http://[::1]:8000/");
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, "8000");
  EXPECT_EQ(v6->authority, "[::1]:8000");
  EXPECT_EQ(ParseTarget("http://host")->port, "80");
  for (const char* url : {"", "host:80", "https://h:1", "http://", "http://:80", "http://h:0",
                          "http://h:65536", "http://h:x", "http://h/v1", "http://[::1",
                          "http://u@h", "http://[::1]80", "http://h:80:80"}) {
    EXPECT_FALSE(ParseTarget(url).has_value()) << url;
  }
}

}  // namespace
}  // namespace sluice::load
