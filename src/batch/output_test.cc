#include "batch/output.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace sluice::batch {
namespace {

constexpr std::string_view kBatch = "0123456789abcdef";

std::string Answer(uint32_t line_idx, std::string_view batch = kBatch, int32_t status = 200) {
  const RowNames names = NamesOf(batch, line_idx);
  return ToText(ResponseLine{.names = names,
                             .custom_id = "a\n\"b\"",
                             .status = status,
                             .body = R"({"x":1})",
                             .ignored_fields = {}});
}

std::string Fault(uint32_t line_idx) {
  const RowNames names = NamesOf(kBatch, line_idx);
  return ToText(FaultLine{.names = names, .custom_id = "", .code = "invalid_url", .message = "no"});
}

std::string ErrorOf(std::string_view text) {
  const Result<Earlier> earlier = ReadEarlier(text);
  return earlier ? "" : std::string(earlier.error().message());
}

TEST(BatchOutput, LinesHaveTheFormOfOpenAi) {
  EXPECT_EQ(Answer(6),
            "{\"id\":\"batch_req_0123456789abcdef_7\",\"custom_id\":\"a\\n\\\"b\\\"\","
            "\"response\":{\"status_code\":200,\"request_id\":\"req_0123456789abcdef00000007\","
            "\"body\":{\"x\":1}},\"error\":null}\n");
  EXPECT_EQ(Fault(6),
            "{\"id\":\"batch_req_0123456789abcdef_7\",\"custom_id\":null,\"response\":null,"
            "\"error\":{\"code\":\"invalid_url\",\"message\":\"no\"}}\n");
}

TEST(BatchOutput, FieldsWithoutEffectAreNamedOnlyIfThereAreAny) {
  const RowNames names = NamesOf(kBatch, 0);
  const std::string line = ToText(ResponseLine{
      .names = names, .custom_id = "a", .body = "{}", .ignored_fields = {"stream", "x"}});
  EXPECT_NE(line.find(R"("body":{},"ignored_fields":["stream","x"]},"error":null})"),
            std::string::npos);
}

TEST(BatchOutput, WhatIsThereIsReadBack) {
  const std::string text = Answer(0) + Fault(4) + Answer(2, kBatch, 400);
  const Result<Earlier> earlier = ReadEarlier(text);
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->batch_id, kBatch);
  EXPECT_EQ(earlier->done, (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(earlier->n_done, 3);
  EXPECT_EQ(earlier->n_failed, 2);
  EXPECT_EQ(earlier->n_bytes, std::ssize(text));
}

TEST(BatchOutput, OfATornLineNothingCountsWhereverItIsTorn) {
  const std::string first = Answer(0);
  const std::string second = Answer(1);
  for (size_t n = 0; n < second.size(); ++n) {
    const Result<Earlier> earlier = ReadEarlier(first + second.substr(0, n));
    ASSERT_TRUE(earlier) << n;
    EXPECT_EQ(earlier->n_done, 1);
    EXPECT_EQ(earlier->n_bytes, std::ssize(first));
  }
  EXPECT_EQ(ReadEarlier(second.substr(0, 5))->n_bytes, 0);
  EXPECT_EQ(ReadEarlier("")->n_done, 0);
}

TEST(BatchOutput, WhatNoRunHasWrittenIsRefusedWithItsLine) {
  for (const char* line :
       {"\n", "x\n", "{}\n", "[]\n", "{\"id\":\"batch_req_7\"}\n",
        "{\"id\":\"batch_req_0123456789abcdef_0\"}\n", "{\"id\":\"batch_req_0123456789abcdef_\"}\n",
        "{\"id\":\"batch_req_0123456789abcdef_1x\"}\n",
        "{\"id\":\"batch_req_0123456789abcdef_99999999999999999999\"}\n"}) {
    EXPECT_NE(ErrorOf(Answer(0) + line).find("line 2"), std::string::npos) << line;
  }
  EXPECT_NE(ErrorOf(Answer(0) + Answer(1, "0123456789abcdee")).find("another input"),
            std::string::npos);
  EXPECT_NE(ErrorOf(Answer(0) + Answer(3) + Answer(0)).find("line 3"), std::string::npos);
}

}  // namespace
}  // namespace sluice::batch
