#include "codec/format/stop_set.h"

#include <gtest/gtest.h>

namespace sluice::codec {
namespace {

// Length of the stop string found first, and where the text stood then.
std::pair<int32_t, size_t> Find(const StopSet& stops, std::string_view text) {
  StopSet::Progress progress;
  stops.Restart(progress);
  for (size_t i = 0; i < text.size(); ++i) {
    if (int32_t n = stops.Advance(progress, text[i]); n > 0) return {n, i + 1};
  }
  return {0, text.size()};
}

TEST(StopSet, FindsAStopStringThatOverlapsItsOwnStart) {
  EXPECT_EQ(Find(StopSet({"abcabd"}), "abcabcabd"), std::pair(6, size_t{9}));
  EXPECT_EQ(Find(StopSet({"ab ab ac"}), "ab ab ab ac"), std::pair(8, size_t{11}));
  EXPECT_EQ(Find(StopSet({"aab"}), "aaaaab"), std::pair(3, size_t{6}));
}

TEST(StopSet, HoldsTheLongestTailThatMayStillBecomeAStop) {
  StopSet stops({"STOP", "TOPAZ"});
  StopSet::Progress progress;
  stops.Restart(progress);
  for (char c : std::string_view("xSTO")) stops.Advance(progress, c);
  EXPECT_EQ(progress.n_held, 3);
  stops.Advance(progress, 'x');
  EXPECT_EQ(progress.n_held, 0);
}

TEST(StopSet, GoesOnAfterAMatch) {
  StopSet stops({"aa"});
  StopSet::Progress progress;
  stops.Restart(progress);
  EXPECT_EQ(stops.Advance(progress, 'a'), 0);
  EXPECT_EQ(stops.Advance(progress, 'a'), 2);
  EXPECT_EQ(stops.Advance(progress, 'a'), 2);
}

TEST(StopSet, KnowsWhereNoneCanBegin) {
  EXPECT_TRUE(StopSet({"STOP", "\n"}).MayBegin("a\n"));
  EXPECT_TRUE(StopSet({"STOP", "\n"}).MayBegin("xS"));
  EXPECT_FALSE(StopSet({"STOP", "\n"}).MayBegin("TOP"));
  EXPECT_FALSE(StopSet({}).MayBegin("TOP"));
}

TEST(StopSet, AnEmptySetFindsNothing) {
  StopSet stops({});
  EXPECT_TRUE(stops.empty());
  EXPECT_EQ(Find(stops, "abc").first, 0);
}

}  // namespace
}  // namespace sluice::codec
