#include "env/posix/process.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

Result<int32_t> EndOf(std::vector<std::string> args) { return RunProgram(args); }

TEST(RunProgram, AnswersTheExitStatus) {
  EXPECT_EQ(*EndOf({"true"}), 0);
  EXPECT_EQ(*EndOf({"sh", "-c", "exit 7"}), 7);
}

TEST(RunProgram, ASignalIsAStatusAbove128) { EXPECT_EQ(*EndOf({"sh", "-c", "kill -9 $$"}), 137); }

TEST(RunProgram, GivesArgumentsAsTheyAre) {
  EXPECT_EQ(*EndOf({"sh", "-c", "test \"$1\" = 'a b; exit 3'", "sh", "a b; exit 3"}), 0);
}

TEST(RunProgram, HasNothingToRead) { EXPECT_EQ(*EndOf({"sh", "-c", "! read line"}), 0); }

TEST(RunProgram, NamesAProgramThatIsNotThere) {
  const auto end = EndOf({"sluice-no-such-program"});
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(end.error().message().find("sluice-no-such-program"), std::string::npos);
}

}  // namespace
}  // namespace sluice
