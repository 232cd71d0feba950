#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace sluice {
namespace {

std::string Escaped(std::string_view text) {
  std::string out;
  AppendJsonEscaped(out, text);
  return out;
}

std::string WrittenDouble(double value) {
  std::string out;
  JsonWriter(out).Double(value);
  return out;
}

TEST(JsonWriter, PlacesCommasBetweenMembersAndElements) {
  std::string out;
  JsonWriter w(out);
  w.Object();
  w.Key("a").Array().Int(1).Int(-2).Object().EndObject().Array().EndArray().EndArray();
  w.Key("b").Object().Key("c").Null().Key("d").Bool(true).EndObject();
  w.Key("e").Raw("[1,2]").Key("f").String("x").Key("g").Uint(UINT64_MAX).Key("h").Double(0.5);
  w.EndObject();
  EXPECT_EQ(out, R"({"a":[1,-2,{},[]],"b":{"c":null,"d":true},)"
                 R"("e":[1,2],"f":"x","g":18446744073709551615,"h":0.5})");
}

TEST(JsonWriter, EscapesWhatJsonMustAndNothingElse) {
  EXPECT_EQ(Escaped("a\"b\\c/d"), R"(a\"b\\c/d)");
  EXPECT_EQ(Escaped("\b\f\n\r\t"), R"(\b\f\n\r\t)");
  EXPECT_EQ(Escaped(std::string_view("\0\x01\x1f\x7f", 4)), "\\u0000\\u0001\\u001f\x7f");
  EXPECT_EQ(Escaped("käse 世界 🙂 \u2028"), "käse 世界 🙂 \u2028");
}

TEST(JsonWriter, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(Escaped("a\xFF"
                    "b"),
            "a\uFFFDb");
  EXPECT_EQ(Escaped("\xF0\x9F\x99"), "\uFFFD");
  EXPECT_EQ(Escaped("\xED\xA0\x80\n"), "\uFFFD\uFFFD\uFFFD\\n");
}

// One special byte at every place of a word and every neighbour: the eight-byte test must miss
// none.
TEST(JsonWriter, EveryByteAtEveryPlaceReadsBackAsItself) {
  for (int c = 0; c < 0x80; ++c) {
    for (size_t place = 0; place < 17; ++place) {
      for (char filler : {' ', '!', '#', '\x7f', 'a', '\n'}) {
        std::string text(17, filler);
        text[place] = static_cast<char>(c);
        auto read = nlohmann::json::parse("\"" + Escaped(text) + "\"");
        ASSERT_EQ(read.get<std::string>(), text);
      }
    }
  }
}

TEST(JsonWriter, DoublesAreShortestAndKeepAFraction) {
  // spec recipe.md §4
  EXPECT_EQ(WrittenDouble(1), "1.0");
  EXPECT_EQ(WrittenDouble(0.1), "0.1");
  EXPECT_EQ(WrittenDouble(-0.0), "-0.0");
  EXPECT_EQ(WrittenDouble(1e5), "100000.0");
  EXPECT_EQ(WrittenDouble(1e-4), "0.0001");
  EXPECT_EQ(WrittenDouble(1e-5), "1e-05");
  EXPECT_EQ(WrittenDouble(1e-7), "1e-07");
  EXPECT_EQ(WrittenDouble(1e15), "1000000000000000.0");
  EXPECT_EQ(WrittenDouble(1e16), "1e+16");
  EXPECT_EQ(WrittenDouble(1.5e300), "1.5e+300");
  EXPECT_EQ(WrittenDouble(123456789012345678901234567890.0), "1.2345678901234568e+29");
  EXPECT_EQ(WrittenDouble(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(WrittenDouble(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
}

TEST(JsonWriter, RandomDoublesRoundTrip) {
  std::mt19937_64 random(7);
  SCOPED_TRACE("seed 7");
  for (int i = 0; i < 100'000; ++i) {
    double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    std::string text = WrittenDouble(value);
    ASSERT_EQ(std::bit_cast<uint64_t>(std::strtod(text.c_str(), nullptr)),
              std::bit_cast<uint64_t>(value))
        << text;
  }
}

TEST(JsonWriter, IntegersOfAllWidths) {
  std::string out;
  JsonWriter w(out);
  w.Array().Int(INT64_MIN).Int(INT64_MAX).Int(0).Uint(0).EndArray();
  EXPECT_EQ(out, "[-9223372036854775808,9223372036854775807,0,0]");
}

}  // namespace
}  // namespace sluice
