#include "base/quantity.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace sluice {
namespace {

TEST(Quantity, ReadsSizesInEveryUnit) {
  EXPECT_EQ(ParseBytes("0B"), 0);
  EXPECT_EQ(ParseBytes("1500B"), 1500);
  EXPECT_EQ(ParseBytes("64KiB"), 64 * kKiB);
  EXPECT_EQ(ParseBytes("48MiB"), 48 * kMiB);
  EXPECT_EQ(ParseBytes("2GiB"), 2 * kGiB);
}

TEST(Quantity, ReadsDurationsInEveryUnit) {
  EXPECT_EQ(ParseDuration("0s"), Duration{});
  EXPECT_EQ(ParseDuration("7ns"), Duration::Nanos(7));
  EXPECT_EQ(ParseDuration("7us"), Duration::Micros(7));
  EXPECT_EQ(ParseDuration("250ms"), Duration::Millis(250));
  EXPECT_EQ(ParseDuration("10s"), Duration::Seconds(10));
  EXPECT_EQ(ParseDuration("3m"), Duration::Seconds(180));
  EXPECT_EQ(ParseDuration("2h"), Duration::Seconds(7200));
}

TEST(Quantity, RefusesWhatHasNoUnitOrIsNotAWholeNumber) {
  for (const char* text : {"", "48", "0", "MiB", "-1B", "+1B", "1.5GiB", "48 MiB", " 48MiB",
                           "48MiB ", "48MB", "48mib", "0x10B", "1e3B", "48MiBB"}) {
    EXPECT_FALSE(ParseBytes(text)) << text;
  }
  for (const char* text : {"", "10", "s", "-1s", "1.5s", "10 s", "10S", "10sec", "1h30m"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(Quantity, RefusesValuesThatOverflowAfterTheUnit) {
  EXPECT_EQ(ParseBytes("9223372036854775807B"), INT64_MAX);
  EXPECT_FALSE(ParseBytes("9223372036854775808B"));
  EXPECT_EQ(ParseBytes("8589934591GiB"), 8589934591 * kGiB);
  EXPECT_FALSE(ParseBytes("8589934592GiB"));
  EXPECT_FALSE(ParseBytes("99999999999999999999B"));
  EXPECT_FALSE(ParseDuration("2562048h"));
}

TEST(Quantity, WritesTheLargestUnitThatDivides) {
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytes(1023), "1023B");
  EXPECT_EQ(FormatBytes(64 * kKiB), "64KiB");
  EXPECT_EQ(FormatBytes(kMiB + kKiB), "1025KiB");
  EXPECT_EQ(FormatDuration(Duration{}), "0s");
  EXPECT_EQ(FormatDuration(Duration::Seconds(75)), "75s");
  EXPECT_EQ(FormatDuration(Duration::Seconds(3600)), "1h");
  EXPECT_EQ(FormatDuration(Duration::Millis(1500)), "1500ms");
}

TEST(Quantity, ReadsBackWhatItWrites) {
  for (int64_t value :
       {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1024}, 48 * kMiB, 3 * kGiB + 1, INT64_MAX}) {
    EXPECT_EQ(ParseBytes(FormatBytes(value)), value);
    EXPECT_EQ(ParseDuration(FormatDuration(Duration::Nanos(value))), Duration::Nanos(value));
  }
}

}  // namespace
}  // namespace sluice
