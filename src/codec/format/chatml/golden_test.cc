// Prompts of the models' own chat templates (tests/golden/chatml).

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "codec/dialect.h"
#include "codec/format/chatml/format.h"
#include "codec/format/chatml/render.h"
#include "codec/turn_memory.h"

namespace sluice::codec::chatml {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::unique_ptr<const Format> FormatOf(Family family) {
  const std::string folder = SLUICE_SOURCE_DIR "/tests/golden/tokenizer/";
  auto vocabulary = token::Vocabulary::Parse(
      ReadFile(folder + (family == Family::kSmollm2 ? "smollm2.json" : "qwen2.json")));
  SLUICE_CHECK(vocabulary);
  auto format = Format::Make(std::move(*vocabulary), family);
  SLUICE_CHECK(format);
  return std::move(*format);
}

TEST(ChatmlGolden, PromptsAreThoseOfTheTemplates) {
  const auto smollm2 = FormatOf(Family::kSmollm2), qwen25 = FormatOf(Family::kQwen25);
  std::ifstream cases(SLUICE_SOURCE_DIR "/tests/golden/chatml/cases.jsonl");
  int n_cases = 0;
  for (std::string line; std::getline(cases, line); ++n_cases) {
    const Result<Json> json = Json::Parse(line);
    ASSERT_TRUE(json.has_value());
    const JsonValue root = json->root();
    SCOPED_TRACE(std::string(root.Find("family").AsString()) + " " +
                 std::string(root.Find("name").AsString()));
    const bool is_smollm2 = root.Find("family").AsString() == "smollm2";
    const Format& format = is_smollm2 ? *smollm2 : *qwen25;
    const std::string_view wanted = root.Find("prompt").AsString();
    const ModelCard card{.name = "m"};
    const PrepareContext context{.model = card, .format = format};
    const Dialect& chat = DialectOf(Api::kChat);
    const std::string body = root.Find("request").ToText();
    const Result<DecodedRequest> request = chat.decode(body, context);
    ASSERT_TRUE(request.has_value()) << request.error().message();
    EXPECT_EQ(Render(request->conversation, format).text, wanted);
    // And so are the tokens, with and without a memory of turns.
    std::vector<TokenId> ids;
    format.bpe().EncodeWithAdded(wanted, ids);
    TurnMemory* const none = nullptr;
    const Prompt prompt = Render(request->conversation, format);
    EXPECT_EQ(Encode(prompt, format, none).ids, ids);
    TurnMemory empty(1 << 20);
    EXPECT_EQ(Encode(prompt, format, &empty).ids, ids);
  }
  EXPECT_EQ(n_cases, 25);
}

}  // namespace
}  // namespace sluice::codec::chatml
