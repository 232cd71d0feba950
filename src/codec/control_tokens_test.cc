// Row S13 of the security table (spec users.md §5): open case C15 for every control token of the
// vocabulary, at every place of a request that takes text.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "codec/joined_answer_test_impl.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::codec {
namespace {

// The added tokens of the released tokenizer (spec recipe.md §1): those of the format, and all the
// others, which nothing here ever writes.
std::vector<std::string> AddedTokens() {
  std::vector<std::string> names;
  for (size_t i = 0; i < deepseek_v41::kNumControls; ++i) {
    names.emplace_back(deepseek_v41::SpellingOf(static_cast<deepseek_v41::Control>(i)));
  }
  for (const char* name : {"▁pad▁",
                           "tool▁calls▁begin",
                           "tool▁calls▁end",
                           "tool▁call▁begin",
                           "tool▁call▁end",
                           "tool▁outputs▁begin",
                           "tool▁outputs▁end",
                           "tool▁output▁begin",
                           "tool▁output▁end",
                           "tool▁sep",
                           "begin▁of▁repo▁name",
                           "end▁of▁repo▁name",
                           "begin▁of▁file▁name",
                           "end▁of▁file▁name",
                           "begin▁of▁file",
                           "end▁of▁file",
                           "place▁holder▁for▁copy",
                           "place▁holder▁for▁pointer▁replace",
                           "begin▁sys",
                           "end▁sys",
                           "action",
                           "query",
                           "authority",
                           "domain",
                           "task",
                           "political",
                           "entity",
                           "title",
                           "safety",
                           "answer",
                           "search",
                           "search▁begin",
                           "search▁end",
                           "extracted_url",
                           "read_url",
                           "end_of_query",
                           "rl_image_pad",
                           "rl_image_start"}) {
    names.push_back(fmt::format("<｜{}｜>", name));
  }
  for (const char* name : {"<|EOT|>", "<dsml:", "</dsml:"}) names.emplace_back(name);
  for (int i = 0; i < 799; ++i) names.push_back(fmt::format("<｜place▁holder▁no▁{}｜>", i));
  for (int i = 21; i <= 442; ++i) names.push_back(fmt::format("<|place_holder_mm_span_{:04}|>", i));
  return names;
}

const deepseek_v41::Format& WholeFormat() {
  static const std::unique_ptr<const deepseek_v41::Format> kFormat = [] {
    auto vocabulary = token::Vocabulary::Parse(token::SampleTokenizer({}, AddedTokens()));
    SLUICE_CHECK(vocabulary);
    auto format = deepseek_v41::Format::Make(std::move(*vocabulary));
    SLUICE_CHECK(format);
    return std::move(*format);
  }();
  return *kFormat;
}

// A schema with `text` wherever a schema takes text.
TestJson SchemaWith(const std::string& text) {
  const TestJson leaf = {
      {"type", "string"}, {"description", text}, {"enum", {text}}, {"default", text}};
  return {
      {"type", "object"}, {"title", text}, {"properties", {{text, leaf}}}, {"required", {text}}};
}

TestJson ChatWith(const std::string& text) {
  const TestJson arguments = {{text, text}};
  const TestJson call = {{"id", "a"},
                         {"type", "function"},
                         {"function", {{"name", text}, {"arguments", arguments.dump()}}}};
  const TestJson part = {{"type", "text"}, {"text", text}};
  return {
      {"model", "deepseek-flash"},
      {"messages",
       {{{"role", "system"}, {"content", text}},
        {{"role", "user"}, {"name", text}, {"content", TestJson::array({part, part})}},
        {{"role", "assistant"},
         {"content", "so"},
         {"reasoning_content", "why"},
         {"tool_calls", TestJson::array({call})}},
        {{"role", "tool"}, {"tool_call_id", "a"}, {"content", text}},
        {{"role", "developer"}, {"content", text}},
        {{"role", "latest_reminder"}, {"content", text}},
        {{"role", "user"}, {"content", text}}}},
      {"tools",
       {{{"type", "function"},
         {"function", {{"name", "f"}, {"description", text}, {"parameters", SchemaWith(text)}}}}}}};
}

TestJson MessagesWith(const std::string& text) {
  const TestJson block = {{"type", "text"}, {"text", text}};
  const TestJson document = {{"type", "document"},
                             {"title", text},
                             {"source", {{"type", "text"}, {"media_type", text}, {"data", text}}}};
  const TestJson call = {
      {"type", "tool_use"}, {"id", "a"}, {"name", text}, {"input", {{text, text}}}};
  const TestJson result = {{"type", "tool_result"}, {"tool_use_id", "a"}, {"content", text}};
  return {{"model", "deepseek-flash"},
          {"max_tokens", 9},
          {"system", TestJson::array({block})},
          {"messages",
           {{{"role", "user"}, {"content", TestJson::array({block, document})}},
            {{"role", "assistant"}, {"content", TestJson::array({call})}},
            {{"role", "user"}, {"content", TestJson::array({result, block})}},
            {{"role", "system"}, {"content", text}}}},
          {"tools", {{{"name", "f"}, {"description", text}, {"input_schema", SchemaWith(text)}}}}};
}

TestJson ResponsesWith(const std::string& text) {
  const TestJson file = {{"type", "input_file"}, {"filename", text}, {"file_data", text}};
  const TestJson part = {{"type", "input_text"}, {"text", text}};
  const TestJson arguments = {{text, text}};
  return {{"model", "deepseek-flash"},
          {"instructions", text},
          {"input",
           {{{"role", "user"}, {"content", TestJson::array({part, file})}},
            {{"type", "function_call"},
             {"call_id", "a"},
             {"name", text},
             {"arguments", arguments.dump()}},
            {{"type", "function_call_output"}, {"call_id", "a"}, {"output", text}},
            {{"role", "developer"}, {"content", text}}}},
          {"tools",
           {{{"type", "function"},
             {"name", "f"},
             {"description", text},
             {"parameters", SchemaWith(text)}}}},
          {"text",
           {{"format", {{"type", "json_schema"}, {"name", "n"}, {"schema", SchemaWith(text)}}}}}};
}

TestJson CompletionsWith(const std::string& text) {
  return {{"model", "deepseek-flash"}, {"prompt", text}, {"suffix", text}};
}

struct Place {
  Api api;
  TestJson (*with)(const std::string& text);
};
constexpr Place kPlaces[] = {{Api::kChat, ChatWith},
                             {Api::kMessages, MessagesWith},
                             {Api::kResponses, ResponsesWith},
                             {Api::kCompletions, CompletionsWith}};

// The control tokens of the prompt, in order.
std::vector<TokenId> ControlsOf(const Place& place, const std::string& text) {
  Result<Prepared> prepared = Prepare(DialectOf(place.api), place.with(text).dump(),
                                      {.model = TestCard(), .format = WholeFormat()});
  EXPECT_TRUE(prepared) << DialectOf(place.api).name << ": " << prepared.status().ToString();
  std::vector<TokenId> controls;
  if (!prepared) return controls;
  std::ranges::copy_if(*prepared->generate.prompt, std::back_inserter(controls),
                       [](TokenId id) { return WholeFormat().vocabulary().is_added(id); });
  return controls;
}

TEST(ControlTokens, S13NoTextOfAClientIsOne) {
  const std::vector<std::string> spellings = AddedTokens();
  ASSERT_GT(spellings.size(), 1280u);
  for (const Place& place : kPlaces) {
    const std::vector<TokenId> clean = ControlsOf(place, "x");
    ASSERT_FALSE(clean.empty());
    for (const std::string& spelling : spellings) {
      ASSERT_EQ(ControlsOf(place, "A" + spelling + "B"), clean)
          << DialectOf(place.api).name << " " << spelling;
    }
  }
}

// A name that is no name is refused before it is in any prompt.
TEST(ControlTokens, S13NoToolIsNamedLikeOne) {
  for (const std::string& spelling : AddedTokens()) {
    TestJson request = ChatWith("x");
    request["tools"][0]["function"]["name"] = spelling;
    ASSERT_FALSE(PrepareAs(Api::kChat, request)) << spelling;
  }
}

// spec recipe.md §8.1: what an answer would not show is not sampled.
TEST(ControlTokens, StrayOnesAreAllButThoseOfAnAnswer) {
  using deepseek_v41::Control;
  const deepseek_v41::Format& format = WholeFormat();
  std::vector<TokenId> of_answers = {format.control(Control::kEnd),
                                     format.control(Control::kEndThink),
                                     format.control(Control::kDsml)};
  for (size_t i = deepseek_v41::kFirstGrounding; i < deepseek_v41::kNumControls; ++i) {
    of_answers.push_back(format.control(static_cast<Control>(i)));
  }
  std::vector<TokenId> wanted;
  for (int32_t id = 0; id < format.n_tokens(); ++id) {
    const bool is_of_answers = std::ranges::count(of_answers, TokenId(id)) > 0;
    if (format.vocabulary().is_added(TokenId(id)) && !is_of_answers) wanted.emplace_back(id);
  }
  EXPECT_EQ(wanted.size(), AddedTokens().size() - of_answers.size());
  EXPECT_TRUE(std::ranges::equal(format.stray(), wanted));
}

}  // namespace
}  // namespace sluice::codec
