#include "env/posix/posix_env.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

namespace sluice {
namespace {

class PosixFiles : public testing::Test {
 protected:
  void Write(std::string_view text) { std::ofstream(path_, std::ios::binary) << text; }
  void TearDown() override { std::remove(path_.c_str()); }

  PosixEnv posix_;
  FileSystem& fs_ = posix_.env().fs;
  const std::string path_ = testing::TempDir() + "sluice_posix_env_test";
};

TEST_F(PosixFiles, AFileIsReadWholeUpToItsLimit) {
  Write("");
  EXPECT_EQ(*fs_.ReadWhole(path_, 10), "");
  std::string text = std::string("a\0b", 3) + std::string(1'000'000, 'x');
  Write(text);
  EXPECT_EQ(*fs_.ReadWhole(path_, 1'000'003), text);
  Result<std::string> refused = fs_.ReadWhole(path_, 1'000'002);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(refused.error().message(), path_ + ": larger than 1000002 bytes");
}

TEST_F(PosixFiles, AFileWithoutSizeEndsAtItsLimitToo) {
  EXPECT_EQ(fs_.ReadWhole("/dev/zero", 1000).error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(*fs_.ReadWhole("/dev/null", 1000), "");
}

TEST_F(PosixFiles, ErrorsNameThePathAsGivenAndNothingElse) {
  Result<std::string> missing = fs_.ReadWhole("no/such.file", 10);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message(), "no/such.file: no such file");
  EXPECT_EQ(fs_.ModifiedAt("no/such.file").error().message(), "no/such.file: no such file");
  EXPECT_EQ(fs_.ReadWhole("..", 10).error().message(), "..: is a directory, not a file");
}

TEST_F(PosixFiles, ModificationTimeIsTheFilesOwn) {
  Write("x");
  Result<WallTime> modified = fs_.ModifiedAt(path_);
  ASSERT_TRUE(modified.has_value());
  // Written a moment ago by the same clock; file systems round down to their own grain.
  Duration age = {posix_.env().clock.Wall().ns - modified->ns};
  EXPECT_LT(age, Duration::Seconds(60));
  EXPECT_GT(age, Duration::Seconds(-60));
}

TEST(PosixClock, NeverGoesBack) {
  PosixEnv posix;
  Time last = posix.env().clock.Now();
  for (int i = 0; i < 10'000; ++i) {
    Time now = posix.env().clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GT(posix.env().clock.Wall().whole_seconds(), 1'700'000'000);
}

TEST(PosixEntropy, FillsWholeBuffersWithBytesThatDiffer) {
  PosixEnv posix;
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(posix.env().entropy.Next()).second);
  std::vector<std::byte> large(1000);  // more than getrandom gives at once without interruption
  posix.env().entropy.Fill(large);
  std::set<std::byte> values(large.end() - 500, large.end());
  EXPECT_GT(values.size(), 100u);
  posix.env().entropy.Fill({});
}

}  // namespace
}  // namespace sluice
