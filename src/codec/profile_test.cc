#include "codec/profile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "codec/answer.h"
#include "codec/dialect/responses/response_store.h"
#include "codec/inquiry.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec {
namespace {

// A request, and what the model writes if the answer to it shows the switch. What comes of it has
// one text under the first value only, and another under the second only.
struct Row {
  std::string_view name;
  Api api;
  std::string body;  // members of the request besides `model`
  std::string output;
  std::string with_first;
  std::string with_second;
};

constexpr const char* kHi = R"("messages":[{"role":"user","content":"hi"}])";
constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}])";
constexpr const char* kClaudeTools =
    R"("max_tokens":9,"tools":[{"name":"look","input_schema":{"type":"object"}}],)";

std::vector<Row> Rows() {
  const std::string hi = kHi;
  return {
      {"sampling-policy", Api::kChat, hi + R"(,"temperature":0.5)", "", "\"temperature\":0.5",
       "\"temperature\":1.0"},
      {"history-reasoning", Api::kChat,
       R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",)"
       R"("reasoning_content":"old"},{"role":"user","content":"c"}])",
       "", "<｜Assistant｜></think>b", "<｜Assistant｜><think>old</think>b"},
      {"malformed-calls", Api::kChat, hi + kTools,
       "</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"look\">\n"
       "<｜DSML｜ parameter name=\"a\" string=\"false\">sky</｜DSML｜ parameter>\n"
       "</｜DSML｜ invoke>\n</｜DSML｜ calls>",
       R"({\"a\": \"sky\"})", R"({\"a\": sky})"},
      {"stray-specials", Api::kChat, hi, "</think>a<｜User｜>b", "\"content\":\"ab\"",
       "\"content\":\"a<｜User｜>b\""},
      {"json-filler", Api::kChat,
       R"("response_format":{"type":"json_object"},)"
       R"("messages":[{"role":"user","content":"json"}])",
       "</think>So {\"a\":1}", R"("content":"{\"a\":1}")", R"("content":"  )"},
      {"forced-call-while-thinking", Api::kChat, hi + kTools + R"(,"tool_choice":"required")", "",
       "tool_call_required", "refused"},
      {"messages-any", Api::kMessages,
       kClaudeTools + hi + R"(,"tool_choice":{"type":"any"},"thinking":{"type":"disabled"})", "",
       "tool_call_required", "\"type\":\"tool_call\""},
      {"messages-prefill", Api::kMessages,
       R"("max_tokens":9,"messages":[{"role":"user","content":"a"},)"
       R"({"role":"assistant","content":"b"}])",
       "", "b<｜end▁of▁sentence｜>", "b\",\"token_ids\""},
      {"missing-reasoning", Api::kChat,
       R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,)"
       R"("tool_calls":[{"id":"1","type":"function","function":{"name":"look",)"
       R"("arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}])" +
           std::string(kTools),
       "", "<tool_result>r", "refused: The `reasoning_content`"},
      {"unknown-history", Api::kResponses, R"("input":"hi","previous_response_id":"resp_1")", "",
       "refused", "<｜User｜>hi"},
      {"usage-chunk", Api::kChat, hi + R"(,"stream":true,"stream_options":{"include_usage":true})",
       "</think>a", R"("choices":[],"usage":{)", R"("finish_reason":"stop"}],"usage":{)"},
      {"responses-web-search", Api::kResponses, R"("input":"hi","tools":[{"type":"web_search"}])",
       "", "<｜User｜>hi", "refused"},
      {"messages-web-search", Api::kMessages,
       R"("max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search"}],)" + hi, "",
       "refused", "<｜User｜>hi"},
      {"model-names", Api::kMessages, R"("max_tokens":9,)" + hi, "", "<｜User｜>hi",
       "refused: The supported API model names"},
      {"reasoning-field", Api::kChat, hi, "th</think>a", R"("reasoning_content":"th"},"logprobs")",
       R"("reasoning_content":"th","reasoning":"th"},"logprobs")"},
  };
}

Profile With(const ProfileSwitch& one, size_t index) {
  Profile profile;
  if (index == 1) profile.*one.field = !(profile.*one.field);
  return profile;
}

std::string AnswerTo(Prepared prepared, const Dialect& dialect, const std::string& output) {
  wire::TokenEvent event;
  std::vector<TokenId> ids;
  SampleFormat().bpe().EncodeWithAdded(output, ids);
  event.tokens.assign(ids.begin(), ids.end());
  event.end = std::make_unique<wire::EventEnd>();
  Answer answer(dialect, SampleFormat(), std::move(prepared.answer), {.id = "1"});
  std::string out;
  answer.OnEvent(0, event, out);
  answer.Finish(out);
  return out;
}

// The answer, or without an output the rendered request, or why it is refused.
std::string OutcomeOf(const Row& row, const Profile& profile) {
  const ModelCard card{.name = "deepseek-flash"};
  responses::ResponseStore store(
      {.n_bytes = 1 << 20, .n_responses = 1, .age = Duration::Seconds(1)});
  const PrepareContext context{
      .model = card, .format = SampleFormat(), .profile = profile, .responses = &store};
  const char* model = row.name == "model-names" ? "claude-x" : "deepseek-flash";
  const Dialect& dialect = DialectOf(row.api);
  Result<Prepared> prepared =
      Prepare(dialect, fmt::format(R"({{"model":"{}",{}}})", model, row.body), context);
  if (!prepared) return fmt::format("refused: {}", prepared.error().message());
  if (row.output.empty()) return RenderJson(*prepared, context);
  return AnswerTo(std::move(*prepared), dialect, row.output);
}

TEST(Profile, EverySwitchShowsInWhatBecomesOfARequest) {
  const std::vector<Row> rows = Rows();
  for (const ProfileSwitch& one : ProfileSwitches()) {
    const auto row = std::ranges::find(rows, one.name, &Row::name);
    ASSERT_NE(row, rows.end()) << one.name << " has no test";
    const std::string first = OutcomeOf(*row, With(one, 0));
    const std::string second = OutcomeOf(*row, With(one, 1));
    EXPECT_NE(first.find(row->with_first), std::string::npos) << one.name << ": " << first;
    EXPECT_EQ(second.find(row->with_first), std::string::npos) << one.name << ": " << second;
    EXPECT_NE(second.find(row->with_second), std::string::npos) << one.name << ": " << second;
    EXPECT_EQ(first.find(row->with_second), std::string::npos) << one.name << ": " << first;
  }
}

TEST(Profile, CompletionsTellTheirUsageOnceWhereverItIs) {
  const Row row{"usage-chunk",
                Api::kCompletions,
                R"("prompt":"a","stream":true,"stream_options":{"include_usage":true})",
                "b",
                "",
                ""};
  for (const bool extra : {true, false}) {
    const std::string stream = OutcomeOf(row, {.usage_chunk = extra});
    size_t n_usages = 0;
    for (size_t at = stream.find("\"usage\":{"); at != std::string::npos;
         at = stream.find("\"usage\":{", at + 1)) {
      ++n_usages;
    }
    EXPECT_EQ(n_usages, 1u) << stream;
    EXPECT_EQ(stream.find("\"choices\":[],\"usage\":{") != std::string::npos, extra) << stream;
    EXPECT_EQ(stream.find("\"usage\":null,\"usage\""), std::string::npos) << stream;
  }
}

TEST(Profile, SwitchesHaveNamesAndFieldsOfTheirOwn) {
  std::set<std::string_view> names;
  for (const ProfileSwitch& one : ProfileSwitches()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_NE(one.values[0], one.values[1]) << one.name;
    const auto same = std::ranges::count(ProfileSwitches(), one.field, &ProfileSwitch::field);
    EXPECT_EQ(same, 1) << one.name;
  }
}

}  // namespace
}  // namespace sluice::codec
