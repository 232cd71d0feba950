#include "batch/row.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace sluice::batch {
namespace {

TEST(BatchRow, ARequestIsReadWithItsBody) {
  const Row row = ReadRow(
      R"({"custom_id":"a","method":"POST","url":"/v1/messages","body":{"x":[1,2.0,"é"]},"y":1})");
  EXPECT_EQ(row.fault_code, "");
  EXPECT_EQ(row.custom_id, "a");
  EXPECT_STREQ(row.dialect->name, "messages");
  EXPECT_EQ(row.body, R"({"x":[1,2.0,"é"]})");
}

TEST(BatchRow, EveryPathOfEveryApiIsAUrl) {
  for (const codec::Dialect& dialect : codec::Dialects()) {
    for (const char* path : dialect.paths) {
      const Row row = ReadRow(std::string(R"({"custom_id":"a","method":"POST","url":")") + path +
                              R"(","body":{}})");
      EXPECT_EQ(row.dialect, &dialect) << path;
    }
  }
}

TEST(BatchRow, WhatIsNoRequestHasAFaultAndItsCustomIdIfItHasOne) {
  const struct {
    const char* line;
    const char* code;
    const char* custom_id;
  } kCases[] = {
      {"", "invalid_json_line", ""},
      {"{", "invalid_json_line", ""},
      {"[]", "invalid_json_line", ""},
      {"{}", "missing_custom_id", ""},
      {R"({"custom_id":""})", "missing_custom_id", ""},
      {R"({"custom_id":7})", "missing_custom_id", ""},
      {R"({"custom_id":"a"})", "invalid_method", "a"},
      {R"({"custom_id":"a","method":"GET"})", "invalid_method", "a"},
      {R"({"custom_id":"a","method":"POST"})", "invalid_url", "a"},
      {R"({"custom_id":"a","method":"POST","url":7})", "invalid_url", "a"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/embeddings"})", "invalid_url", "a"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/messages"})", "missing_body", "a"},
  };
  for (const auto& c : kCases) {
    const Row row = ReadRow(c.line);
    EXPECT_EQ(row.fault_code, c.code) << c.line;
    EXPECT_EQ(row.custom_id, c.custom_id) << c.line;
    EXPECT_FALSE(row.fault.empty()) << c.line;
  }
}

TEST(BatchRow, LimitsHaveTheirNames) {
  const std::string id(limits::kMaxCustomIdBytes + 1, 'a');
  EXPECT_EQ(ReadRow("{\"custom_id\":\"" + id + "\"}").fault_code, "invalid_custom_id");
  EXPECT_EQ(ReadRow(std::string(limits::kMaxBatchLineBytes + 1, ' ')).fault_code, "line_too_long");
}

// The body of a row may be as deep as that of a request: the server refuses the rest itself.
TEST(BatchRow, ABodyMayNestAsDeepAsThatOfARequest) {
  const std::string body =
      std::string(limits::kMaxJsonDepth, '[') + std::string(limits::kMaxJsonDepth, ']');
  EXPECT_EQ(
      ReadRow(R"({"custom_id":"a","method":"POST","url":"/v1/messages","body":)" + body + "}").body,
      body);
}

TEST(BatchRow, SeedsAreOfTheLineAlone) {
  const RowSeeds a = SeedsOf("a");
  EXPECT_EQ(a.sampling, SeedsOf("a").sampling);
  EXPECT_EQ(a.call_ids, SeedsOf("a").call_ids);
  EXPECT_NE(a.sampling, SeedsOf("b").sampling);
  EXPECT_NE(a.sampling, a.call_ids);
}

TEST(BatchRow, BlankLinesAreNoRows) {
  EXPECT_TRUE(IsBlank("") && IsBlank(" \t\r"));
  EXPECT_FALSE(IsBlank(" {"));
}

}  // namespace
}  // namespace sluice::batch
