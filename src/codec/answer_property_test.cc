// Properties that hold of every output (spec open-cases.md §3.16), over random ones;
// --gtest_random_seed repeats a run.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random_test_impl.h"
#include "codec/joined_answer_test_impl.h"

namespace sluice::codec {
namespace {

const std::vector<std::string> kPieces = {"a",
                                          "word ",
                                          "\n",
                                          "\n\n",
                                          "</think>",
                                          "</think>",
                                          "<",
                                          "｜DSML｜",
                                          "三",
                                          "\xF0\x9F\x9A\xA2",
                                          "\x80",
                                          "STOP",
                                          "{\"a\": 1}",
                                          "```json\n",
                                          "\n```",
                                          "\"",
                                          "\\",
                                          "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n",
                                          "<｜DSML｜ parameter name=\"k\" string=\"true\">",
                                          "<｜DSML｜ parameter name=\"n\" string=\"false\">",
                                          "[1, 2.5]",
                                          "nope",
                                          "</｜DSML｜ parameter>\n",
                                          "</｜DSML｜ invoke>\n",
                                          "<｜DSML｜ invoke name=\"g\">\n",
                                          "</｜DSML｜ calls>",
                                          "<｜end▁of▁sentence｜>"};

class RandomOutputs : public Random {
 public:
  std::vector<TokenId> Output() {
    std::string text;
    for (size_t n = Below(20); n > 0; --n) text += kPieces[Below(kPieces.size())];
    std::vector<TokenId> ids;
    SampleFormat().bpe().EncodeWithAdded(text, ids);
    return ids;
  }
};

TestJson RandomRequest(Api api, RandomOutputs& random) {
  TestJson members = TestJson::object();
  if (api != Api::kCompletions && random.Below(2) == 0) members.update(WithoutThinking(api));
  if (api != Api::kCompletions && random.Below(3) != 0) members.update(ToolsOf(api));
  const char* stops = api == Api::kMessages ? "stop_sequences" : "stop";
  if (api != Api::kResponses && random.Below(3) == 0) members[stops] = {"STOP"};
  if (api == Api::kChat && random.Below(4) == 0) {
    members["response_format"] = {{"type", "json_object"}};
    members["messages"] = {{{"role", "user"}, {"content", "json"}}};
  }
  return RequestOf(api, members);
}

// Two rules that clients rely on: one answer, and one way to count it.
TEST(AnswerProperty, DeltasJoinToTheWholeAnswerInEachApiHoweverTheyAreCut) {
  RandomOutputs random;
  for (const Api api : kApis) {
    for (int round = 0; round < 1000; ++round) {
      TestJson request = RandomRequest(api, random);
      const std::vector<TokenId> output = random.Output();
      const auto finish =
          random.Below(3) == 0 ? wire::FinishReason::kLength : wire::FinishReason::kEnd;
      const Result<Prepared> plain = PrepareAs(api, request);
      request["stream"] = true;
      const Result<Prepared> stream = PrepareAs(api, request);
      ASSERT_TRUE(plain && stream) << request;
      const Joined whole =
          JoinedOf(api, false, Play(api, *plain, output, {output.size() + 1}, finish));
      const std::vector<size_t> sizes = {1 + random.Below(4), 1 + random.Below(9)};
      const Joined joined = JoinedOf(api, true, Play(api, *stream, output, sizes, finish));
      ASSERT_EQ(joined, whole) << DialectOf(api).name << " " << request << "\n" << TextOf(output);
    }
  }
}

}  // namespace
}  // namespace sluice::codec
