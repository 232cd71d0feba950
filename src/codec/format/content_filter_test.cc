#include "codec/format/content_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "codec/format/character_reader.h"

namespace sluice::codec {
namespace {

// A filter and what it has passed on; `_` is filler. Each character is a token.
class Filtered {
 public:
  explicit Filtered(AnswerSpec spec)
      : spec_(std::move(spec)), stops_(spec_.stops), filter_(spec_, stops_) {}

  void Take(std::string_view text) {
    std::vector<Character> characters;
    for (const char c : text) CharacterReader().Take({&c, 1}, n_tokens_++, characters);
    for (const Character& c : characters) filter_.Take(c, items_);
  }
  std::string Shown() const {
    std::string shown;
    for (const ContentFilter::Item& item : items_) {
      shown += item.is_filler ? "_" : item.character.text();
    }
    return shown;
  }
  void Release() { filter_.Release(items_); }
  void End() { filter_.End(items_); }
  const ContentFilter& filter() const { return filter_; }

 private:
  const AnswerSpec spec_;
  const StopSet stops_;
  ContentFilter filter_;
  int32_t n_tokens_ = 0;
  std::vector<ContentFilter::Item> items_;
};

AnswerSpec WithStops(std::vector<std::string> stops) {
  AnswerSpec spec;
  spec.stops = std::move(stops);
  return spec;
}

TEST(ContentFilter, HoldsOnlyWhatMayBeginAStopString) {
  Filtered filtered(WithStops({"abc"}));
  filtered.Take("xab");
  EXPECT_EQ(filtered.Shown(), "x");
  EXPECT_TRUE(filtered.filter().holds_content());
  EXPECT_EQ(filtered.filter().first_held_token(), 1);
  filtered.Take("y");
  EXPECT_EQ(filtered.Shown(), "xaby");
  EXPECT_EQ(filtered.filter().first_held_token(), kNoToken);
  EXPECT_FALSE(filtered.filter().may_hold("xyz"));
  EXPECT_TRUE(filtered.filter().may_hold("xya"));
}

TEST(ContentFilter, ShowsNothingFromAStopStringOn) {
  Filtered filtered(WithStops({"bc", "abc"}));
  filtered.Take("xabcab");
  filtered.End();
  EXPECT_EQ(filtered.Shown(), "x");
  EXPECT_EQ(filtered.filter().stop_string(), "abc");
  EXPECT_EQ(filtered.filter().n_tokens_at_stop(), 4);
}

TEST(ContentFilter, AStopStringGoesAcrossReleaseAndNotAcrossTheEnd) {
  Filtered released(WithStops({"abc"}));
  released.Take("ab");
  released.Release();
  EXPECT_EQ(released.Shown(), "ab");
  released.Take("c");
  EXPECT_TRUE(released.filter().has_stopped());
  Filtered ended(WithStops({"abc"}));
  ended.Take("ab");
  ended.End();
  ended.Take("c");
  EXPECT_EQ(ended.Shown(), "abc");
  EXPECT_FALSE(ended.filter().has_stopped());
}

TEST(ContentFilter, StopStringsAreSearchedInTheJsonAndFillerKeepsItsPlace) {
  AnswerSpec spec = WithStops({"I", "2"});
  spec.is_json = true;
  spec.profile = Profile::Reference();
  Filtered filtered(spec);
  filtered.Take("I: [1, 2]");
  EXPECT_EQ(filtered.Shown(), "___[1, ");
  EXPECT_EQ(filtered.filter().stop_string(), "2");
}

}  // namespace
}  // namespace sluice::codec
