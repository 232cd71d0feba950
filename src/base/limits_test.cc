#include "base/limits.h"

#include <gtest/gtest.h>

#include <set>

#include "base/trace.h"

namespace sluice {
namespace {

TEST(Limits, ListHasEveryConstantOnceWithAValueAndASentence) {
  std::set<std::string_view> names;
  for (const limits::Limit& limit : limits::All()) {
    EXPECT_TRUE(names.insert(limit.name).second) << limit.name;
    EXPECT_GT(limit.value, 0) << limit.name;
    EXPECT_FALSE(limit.unit.empty()) << limit.name;
    EXPECT_TRUE(limit.sentence.ends_with(".")) << limit.name;
  }
  EXPECT_TRUE(names.contains("kMaxStops"));
  static_assert(limits::kMaxStops == 16);  // spec http-api.md §1
}

TEST(Trace, ZonesAreTheTenHopsInOrder) {
  ASSERT_EQ(kNumZones, 10);
  for (int32_t i = 0; i < kNumZones; ++i) {
    EXPECT_EQ(kZones[i].hop, i + 1);
    EXPECT_EQ(static_cast<int32_t>(kZones[i].zone), i);
  }
  EXPECT_EQ(kZones[static_cast<int>(Zone::kCodecEncode)].name, "codec.encode");
}

TEST(Trace, TimeAddsUpPerZone) {
  RequestTrace trace;
  trace.Add(Zone::kHttpRead, Duration::Micros(3));
  trace.Add(Zone::kHttpRead, Duration::Micros(4));
  trace.Add(Zone::kCommit, Duration::Micros(1));
  EXPECT_EQ(trace.of(Zone::kHttpRead), Duration::Micros(7));
  EXPECT_EQ(trace.of(Zone::kCommit), Duration::Micros(1));
  EXPECT_EQ(trace.of(Zone::kPlan), Duration());
}

}  // namespace
}  // namespace sluice
