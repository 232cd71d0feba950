#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "base/result.h"

namespace sluice {
namespace {

TEST(ErrorTable, EveryCodeHasItsRowAndDeterministicInputErrorsAreNotRetried) {
  std::set<std::string> names;
  for (int i = 0; i < kNumErrorCodes; ++i) {
    ErrorCode code = static_cast<ErrorCode>(i);
    const ErrorRow& row = RowOf(code);
    EXPECT_EQ(row.code, code);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(std::string(row.openai_type).empty(), code == ErrorCode::kOk) << row.name;
  }
  for (ErrorCode input :
       {ErrorCode::kInvalidArgument, ErrorCode::kContextLength, ErrorCode::kTooLarge,
        ErrorCode::kUnsupportedMedia, ErrorCode::kHeaderTooLarge, ErrorCode::kModelNotFound}) {
    EXPECT_EQ(RowOf(input).http_status / 100, 4) << RowOf(input).name;
  }
  EXPECT_EQ(RowOf(ErrorCode::kRateLimited).http_status, 429);
  EXPECT_EQ(RowOf(ErrorCode::kOverloaded).http_status, 503);
}

TEST(Status, DefaultIsOkAndCarriesNothing) {
  Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), ErrorCode::kOk);
  EXPECT_EQ(ok.message(), "");
  EXPECT_EQ(ok.api_code(), "");
  EXPECT_EQ(ok.retry_after(), Duration());
  EXPECT_EQ(ok.ToString(), "ok");
  ok.AddContext("no effect");
  EXPECT_TRUE(ok.ok());
}

TEST(Status, CarriesCodeFieldSentenceAndRetryTime) {
  Status status = Status::InvalidField("messages[2].content", "must be a string");
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.param(), "messages[2].content");
  EXPECT_EQ(status.api_code(), "invalid_request_error");  // the table's
  status.AddContext("line 3").set_retry_after(Duration::Millis(1200));
  EXPECT_EQ(status.message(), "line 3: must be a string");
  EXPECT_EQ(status.retry_after(), Duration::Millis(1200));
  EXPECT_EQ(status.ToString(), "invalid_argument: line 3: must be a string (messages[2].content)");
}

TEST(Status, AReasonOfItsOwnStandsForTheCodeOfTheTable) {
  Status status(ErrorCode::kOverloaded, "full");
  EXPECT_FALSE(status.has_own_api_code());
  EXPECT_EQ(status.api_code(), "overloaded");
  status.set_api_code("queue_full");
  const Status copy = status;
  EXPECT_TRUE(copy.has_own_api_code());
  EXPECT_EQ(copy.api_code(), "queue_full");
  EXPECT_EQ(copy.code(), ErrorCode::kOverloaded);
}

TEST(Status, CopiesAreIndependent) {
  Status first(ErrorCode::kNotFound, "no such thing");
  Status second = first;
  second.AddContext("here");
  EXPECT_EQ(first.message(), "no such thing");
  EXPECT_EQ(second.message(), "here: no such thing");
  first = second;
  EXPECT_EQ(first.message(), "here: no such thing");
  first = Status::Ok();
  EXPECT_TRUE(first.ok());
  EXPECT_FALSE(second.ok());
}

Result<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) return Status::Invalid("odd");
  return std::make_unique<int>(value / 2);
}

Result<int> Quarter(int value) {
  SLUICE_TRY(std::unique_ptr<int> half, Half(value));
  SLUICE_TRY(auto quarter, Half(*half));
  return *quarter;
}

Status CheckEven(int value) {
  SLUICE_TRY(Half(value).status());
  return Status::Ok();
}

TEST(Result, HoldsAValueOrTheReasonForNone) {
  Result<std::unique_ptr<int>> half = Half(8);
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(**half, 4);
  EXPECT_TRUE(half.status().ok());
  EXPECT_EQ(Half(7).error().message(), "odd");
  EXPECT_EQ(Half(7).status().code(), ErrorCode::kInvalidArgument);
}

TEST(Result, TryPassesErrorsUpAndMovesValues) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).error().message(), "odd");
  EXPECT_EQ(Quarter(5).error().message(), "odd");
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_EQ(CheckEven(3).message(), "odd");
}

using ResultDeathTest = testing::Test;

TEST(ResultDeathTest, TakingWhatIsNotThereEndsTheProcess) {
  Result<int> error = Status::Invalid("x");
  Result<int> value = 3;
  EXPECT_DEATH(*error = 1, "CHECK failed");
  EXPECT_DEATH((void)value.error(), "CHECK failed");
  EXPECT_DEATH((void)Result<int>{Status::Ok()}, "CHECK failed");
}

}  // namespace
}  // namespace sluice
