#include "env/proc_text.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

TEST(ProcText, AFieldIsTheFirstLineOfItsName) {
  constexpr std::string_view kText =
      "processor\t: 0\nflags\t\t: fpu avx2 \nflags\t: other\nflagship: x";
  EXPECT_EQ(FieldOf(kText, "flags"), "fpu avx2");
  EXPECT_EQ(FieldOf(kText, "flagship"), "x");
  EXPECT_EQ(FieldOf(kText, "processor"), "0");
  for (std::string_view name : {"flag", "lags", "0", "nothing", "other"})
    EXPECT_EQ(FieldOf(kText, name), "") << name;
  EXPECT_EQ(FieldOf("", "x"), "");
  EXPECT_EQ(FieldOf("x:", "x"), "");
}

TEST(ProcText, KilobytesAreBytesWithTheirUnit) {
  constexpr std::string_view kText = "MemTotal:       24689764 kB\nMemAvailable:   12 kB\n";
  EXPECT_EQ(KilobyteField(kText, "MemTotal"), 24689764LL * 1024);
  EXPECT_EQ(KilobyteField(kText, "MemAvailable"), 12 * 1024);
  for (std::string_view bad :
       {"M: 1", "M: 1 MB", "M: -1 kB", "M: kB", "M: 1e3 kB", "M: 0x10 kB", "M 1 kB",
        "M: 99999999999999999999 kB", "M: 9223372036854775807 kB", ""})
    EXPECT_EQ(KilobyteField(bad, "M"), std::nullopt) << bad;
}

TEST(ProcText, WordsAreWhole) {
  EXPECT_TRUE(HasWord("fpu avx2 avx512f", "avx2"));
  EXPECT_TRUE(HasWord("avx2", "avx2"));
  EXPECT_FALSE(HasWord("fpu avx512f", "avx512"));
  EXPECT_FALSE(HasWord("", "avx2"));
}

TEST(ProcText, RangesAreCounted) {
  EXPECT_EQ(CountOfRanges("0-3,8\n"), 5);
  EXPECT_EQ(CountOfRanges("7"), 1);
  for (std::string_view bad :
       {"", "\n", "a", "3-1", "1-", "-1", "0-99999999999", "0-1048576", "1,,2", "0-1-2", "1 2"})
    EXPECT_EQ(CountOfRanges(bad), std::nullopt) << bad;
}

TEST(ProcText, AQuotaIsAPartOfThePeriod) {
  EXPECT_EQ(CoresOfQuota("150000 100000\n"), 1.5);
  for (std::string_view bad : {"max 100000", "1 0", "1", "", "-1 100000", "1 2 3", "1.5 1"})
    EXPECT_EQ(CoresOfQuota(bad), std::nullopt) << bad;
}

TEST(ProcText, NoLimitIsAbsent) {
  EXPECT_EQ(CgroupBytes("1073741824\n"), 1 << 30);
  EXPECT_EQ(CgroupBytes("0\n"), 0);
  for (std::string_view none : {"max\n", "9223372036854771712\n", "", "-1\n", "12 13"})
    EXPECT_EQ(CgroupBytes(none), std::nullopt) << none;
  EXPECT_EQ(
      OpenFilesLimit("Limit  Soft Hard Units\nMax open files            1024     4096   files\n"),
      1024);
  EXPECT_EQ(OpenFilesLimit("Max open files            unlimited     4096   files\n"), std::nullopt);
  EXPECT_EQ(OpenFilesLimit("Max open files"), std::nullopt);
  EXPECT_EQ(OpenFilesLimit("Max open file 3"), std::nullopt);
}

TEST(ProcText, AStatHasItsWholeName) {
  EXPECT_EQ(StatBytes("anon 1\nactive_file 2\ninactive_file 4096\n", "inactive_file"), 4096);
  EXPECT_EQ(StatBytes("inactive_file x", "inactive_file"), std::nullopt);
  EXPECT_EQ(StatBytes("inactive_file", "inactive_file"), std::nullopt);
}

TEST(ProcText, ACgroupIsAPathThatGoesDown) {
  EXPECT_EQ(CgroupPath("12:cpu:/x\n0::/user.slice/a\n"), "/user.slice/a");
  EXPECT_EQ(CgroupPath("0::/\n"), "/");
  for (std::string_view none : {"", "0::\n", "1:name=systemd:/a\n", "0::/../../etc\n", "0::a"})
    EXPECT_EQ(CgroupPath(none), "") << none;
}

TEST(ProcText, TheChosenWordIsInBrackets) {
  EXPECT_EQ(ChosenWord("always [madvise] never\n"), "madvise");
  for (std::string_view none : {"", "always", "[always", "always]", "]["})
    EXPECT_EQ(ChosenWord(none), "") << none;
}

TEST(ProcText, LongTextsWithoutAnAnswerAreReadOnce) {
  const std::string lines(1 << 20, '\n');
  EXPECT_EQ(FieldOf(lines, "x"), "");
  EXPECT_EQ(CountOfRanges(std::string(1 << 20, ',')), std::nullopt);
  EXPECT_EQ(KilobyteField(std::string(1 << 20, 'M'), "M"), std::nullopt);
}

}  // namespace
}  // namespace sluice
