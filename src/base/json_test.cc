#include "base/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace sluice {
namespace {

Json Parsed(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  if (!json) ADD_FAILURE() << json.error().ToString() << "\n" << text.substr(0, 200);
  return json ? std::move(*json) : std::move(*Json::Parse("null"));
}

std::string TextOf(std::string_view text) { return Parsed(text).root().ToText(); }

std::string ErrorOf(std::string_view text, const Json::Limits& limits = {}) {
  Result<Json> json = Json::Parse(text, limits);
  if (json) return "accepted as " + json->root().ToText();
  EXPECT_EQ(json.error().code(), ErrorCode::kInvalidArgument);
  return std::string(json.error().message());
}

std::string Nested(int32_t depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

TEST(Json, ValuesHaveTheirKinds) {
  Json json = Parsed(R"({"n":null,"t":true,"i":-7,"u":18446744073709551615,"d":1.5,)"
                     R"("s":"x\u00e4","a":[1],"o":{}})");
  JsonValue root = json.root();
  ASSERT_TRUE(root.is_object());
  EXPECT_EQ(root.size(), 8);
  EXPECT_TRUE(root.Find("n").is_null());
  EXPECT_TRUE(root.Find("t").AsBool());
  EXPECT_EQ(root.Find("i").AsInt64(), -7);
  EXPECT_EQ(root.Find("i").AsDouble(), -7.0);
  EXPECT_EQ(root.Find("u").kind(), JsonKind::kUint);
  EXPECT_EQ(root.Find("u").AsUint64(), UINT64_MAX);
  EXPECT_EQ(root.Find("d").AsDouble(), 1.5);
  EXPECT_EQ(root.Find("s").AsString(), "xä");
  EXPECT_EQ(root.Find("a").size(), 1);
  EXPECT_TRUE(root.Find("o").is_object());
  EXPECT_FALSE(root.Find("absent").exists());
  EXPECT_FALSE(root.Find("s").Find("x").exists());
  EXPECT_STREQ(NameOf(root.Find("a").kind()), "an array");
}

TEST(Json, RangesVisitChildrenInDocumentOrderAndSkipWhatIsBelow) {
  Json json = Parsed(R"({"z":[[1,[2]],{"k":[3]},4],"a":{"b":{"c":5}},"m":6})");
  std::string keys;
  for (JsonMember member : json.root().members()) keys += member.key;
  EXPECT_EQ(keys, "zam");
  std::string elements;
  for (JsonValue element : json.root().Find("z").elements()) elements += element.ToText() + ";";
  EXPECT_EQ(elements, R"([1,[2]];{"k":[3]};4;)");
  for (JsonValue element : json.root().elements()) FAIL() << element.ToText();
  for (JsonMember member : json.root().Find("z").members()) FAIL() << member.key;
}

TEST(Json, TextIsCompactAndKeepsOrder) {
  EXPECT_EQ(TextOf(" { \"b\" : [ 1 , 2.50 , \"x\\/y\" ] , \"a\" : { } , \"c\" : [ [ ] , null ] } "),
            R"({"b":[1,2.5,"x/y"],"a":{},"c":[[],null]})");
  EXPECT_EQ(TextOf("\"only a string\""), "\"only a string\"");
  EXPECT_EQ(TextOf("\"\""), "\"\"");
  EXPECT_EQ(Parsed(R"({"a":[1,{"b":2}],"c":3})").root().Find("a").ToText(), R"([1,{"b":2}])");
}

TEST(Json, IntegersThatFitStayExactAndOthersAreDoubles) {
  EXPECT_EQ(TextOf("[9223372036854775807,-9223372036854775808,18446744073709551615]"),
            "[9223372036854775807,-9223372036854775808,18446744073709551615]");
  EXPECT_EQ(TextOf("[18446744073709551616,-9223372036854775809,123456789012345678901234567890]"),
            "[1.8446744073709552e+19,-9.223372036854776e+18,1.2345678901234568e+29]");
  EXPECT_EQ(TextOf("[1.0,1E5,-0.0,1e-7,4e-400]"), "[1.0,100000.0,-0.0,1e-07,0.0]");
}

TEST(Json, MinusZeroIsADouble) {
  EXPECT_EQ(TextOf("-0"), "-0.0");
  EXPECT_EQ(TextOf(R"({"a":[-0 , -0],"on 2026-07-04 :-0,":-0.5,"b":-0e1})"),
            R"({"a":[-0.0,-0.0],"on 2026-07-04 :-0,":-0.5,"b":-0.0})");
}

TEST(Json, LastOfDuplicateKeysCountsAtThePlaceOfTheFirst) {
  EXPECT_EQ(TextOf(R"({"a":1,"b":2,"a":3})"), R"({"a":3,"b":2})");
  EXPECT_EQ(
      TextOf(R"({"a":[1,2],"b":{"x":1,"x":{"y":1,"y":2}},"a":{"z":[]},"c":0,"b":7,"a":null})"),
      R"({"a":null,"b":7,"c":0})");
  EXPECT_EQ(TextOf(R"({"a":1,"b":{"x":1,"x":{"y":1,"y":2}},"a":{"q":[1,{"r":1,"r":2}]}})"),
            R"({"a":{"q":[1,{"r":2}]},"b":{"x":{"y":2}}})");
  EXPECT_EQ(TextOf(R"({"a":1,"\u0061":2})"), R"({"a":2})");
  EXPECT_EQ(TextOf(R"({"":1,"":2})"), R"({"":2})");
}

TEST(Json, DuplicatesInLargeObjectsAreResolvedLikeInSmallOnes) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += fmt::format("\"k{}\":{},", i % 100, i);
  text.back() = '}';
  Json json = Parsed(text);
  ASSERT_EQ(json.root().size(), 100);
  int expected = 900;
  for (JsonMember member : json.root().members()) {
    EXPECT_EQ(member.key, fmt::format("k{}", expected - 900));
    EXPECT_EQ(member.value.AsInt64(), expected++);
  }
}

TEST(Json, LoneSurrogateEscapesReadAsReplacementCharacters) {
  EXPECT_EQ(Parsed(R"("\ud83d\ude42")").root().AsString(), "🙂");
  EXPECT_EQ(Parsed(R"("a\ud800b")").root().AsString(), "a\uFFFDb");
  EXPECT_EQ(Parsed(R"("\ude42")").root().AsString(), "\uFFFD");
  EXPECT_EQ(Parsed(R"("\ud800\ud83d\ude42\udfff")").root().AsString(), "\uFFFD🙂\uFFFD");
  EXPECT_EQ(Parsed(R"("\uD800\u0041")").root().AsString(), "\uFFFDA");
  EXPECT_EQ(Parsed(R"("\ud800\n\\ud800")").root().AsString(), "\uFFFD\n\\ud800");
  EXPECT_EQ(TextOf(R"({"\udc00k":[1,123456789012345678901,"\ud800"]})"),
            "{\"\uFFFDk\":[1,1.2345678901234568e+20,\"\uFFFD\"]}");
}

TEST(Json, ErrorsSayWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf(""), "invalid JSON at byte 0: the text ends where a value is expected");
  EXPECT_EQ(ErrorOf("  \n"), "invalid JSON at byte 3: the text ends where a value is expected");
  EXPECT_EQ(ErrorOf("{nope"), "invalid JSON at byte 1: expected a key in double quotes");
  EXPECT_EQ(ErrorOf("{\"a\" 1}"), "invalid JSON at byte 5: expected ':' after a key");
  EXPECT_EQ(ErrorOf("{\"a\":1 \"b\"}"), "invalid JSON at byte 7: expected ',' or '}'");
  EXPECT_EQ(ErrorOf("[1 2]"), "invalid JSON at byte 3: expected ',' or ']'");
  EXPECT_EQ(ErrorOf("[1,]"), "invalid JSON at byte 3: expected a value");
  EXPECT_EQ(ErrorOf("{\"a\":1,}"), "invalid JSON at byte 7: expected a key in double quotes");
  EXPECT_EQ(ErrorOf("{}x"), "invalid JSON at byte 2: text after the end of the JSON value");
  EXPECT_EQ(ErrorOf(std::string_view("{}\0", 3)),
            "invalid JSON at byte 2: text after the end of the JSON value");
  EXPECT_EQ(
      ErrorOf("[\"a\x01\"]"),
      "invalid JSON at byte 3: raw control character U+0001 in a string; write it as an escape");
  EXPECT_EQ(ErrorOf("[\"\xFF\"]"), "invalid JSON at byte 2: byte 0xff is not UTF-8");
  EXPECT_EQ(ErrorOf("[\"\xED\xA0\x80\"]"), "invalid JSON at byte 2: byte 0xed is not UTF-8");
  EXPECT_EQ(ErrorOf("[\"abc"), "invalid JSON at byte 1: a string without closing quote");
  EXPECT_EQ(ErrorOf("[\"\\x\"]"), "invalid JSON at byte 2: unknown escape in a string");
  EXPECT_EQ(ErrorOf("\"\\"), "invalid JSON at byte 1: unknown escape in a string");
  EXPECT_EQ(ErrorOf("\"\\u12\""), "invalid JSON at byte 1: \\u without four hexadecimal digits");
  EXPECT_EQ(ErrorOf("\"\\u+123\""), "invalid JSON at byte 1: \\u without four hexadecimal digits");
  EXPECT_EQ(ErrorOf("[01]"), "invalid JSON at byte 1: malformed number");
  EXPECT_EQ(ErrorOf("[1.]"), "invalid JSON at byte 1: malformed number");
  EXPECT_EQ(ErrorOf("[-]"), "invalid JSON at byte 1: malformed number");
  EXPECT_EQ(ErrorOf("[1e+]"), "invalid JSON at byte 1: malformed number");
  EXPECT_EQ(ErrorOf("[+1]"), "invalid JSON at byte 1: expected a value");
  EXPECT_EQ(ErrorOf("[nul]"), "invalid JSON at byte 1: expected a value");
  EXPECT_EQ(ErrorOf("[truex]"), "invalid JSON at byte 5: expected ',' or ']'");
  EXPECT_EQ(ErrorOf("\xEF\xBB\xBF{}"), "invalid JSON at byte 0: expected a value");
  EXPECT_EQ(ErrorOf("]"), "invalid JSON at byte 0: expected a value");
  EXPECT_EQ(ErrorOf("[1}"), "invalid JSON at byte 2: expected ',' or ']'");
}

TEST(Json, NumbersBeyondDoubleAreRefused) {
  for (std::string_view number :
       {"1e999", "-1e999", "1e309", "0.00001e99999", "1e99999999999999999999",
        "66e9223372036854775807",
        "179769313486231580793728971405303415079934132710037826936173e250"}) {
    EXPECT_EQ(ErrorOf(fmt::format("[0,{}]", number)),
              "invalid JSON at byte 3: a number out of the range of a double")
        << number;
  }
  std::string digits(400, '9');
  EXPECT_EQ(ErrorOf(digits), "invalid JSON at byte 0: a number out of the range of a double");
  for (std::string_view number :
       {"1e-999", "0e999", "0.0e99999999999999999999", "1e-99999999999999999999"}) {
    EXPECT_EQ(Parsed(number).root().AsDouble(), 0.0) << number;
  }
}

TEST(Json, DepthIsLimitedExactly) {
  EXPECT_EQ(TextOf(Nested(127)), Nested(127));
  EXPECT_EQ(ErrorOf(Nested(128)),
            "invalid JSON at byte 127: more than 127 nested arrays and objects");
  EXPECT_EQ(ErrorOf(std::string(1'000'000, '[')),
            "invalid JSON at byte 127: more than 127 nested arrays and objects");
  EXPECT_EQ(ErrorOf("[{\"a\":[]}]", {.depth = 2}),
            "invalid JSON at byte 6: more than 2 nested arrays and objects");
  EXPECT_TRUE(Json::Parse("[{\"a\":1}]", {.depth = 2}).has_value());
}

TEST(Json, BytesAndValuesAreLimitedExactly) {
  EXPECT_EQ(ErrorOf("[1,2]", {.text_bytes = 4}), "JSON text of 5 bytes, at most 4 are allowed");
  EXPECT_TRUE(Json::Parse("[1,2]", {.text_bytes = 5}).has_value());
  EXPECT_TRUE(Json::Parse("[1,2]", {.values = 3}).has_value());
  EXPECT_EQ(ErrorOf("[1,2]", {.values = 2}), "invalid JSON at byte 3: more than 2 values");
  // Separators inside strings are no values.
  EXPECT_TRUE(Json::Parse("[\",,,,[[[[{{{{\"]", {.values = 2}).has_value());
}

TEST(Json, TextNeedNotBePaddedOrTerminated) {
  // The allocation ends with the text, so that the address sanitizer sees a read beyond it.
  for (std::string text :
       {"[1]", "{\"a\":\"\\ud800\"}", "-0", "12", "true", "\"x\"", "[", "\"\\u", "-"}) {
    const std::vector<char> exact(text.begin(), text.end());
    Result<Json> json = Json::Parse({exact.data(), exact.size()});
    EXPECT_EQ(json.has_value(),
              nlohmann::json::accept(text) || text.find("ud800") != std::string::npos)
        << text;
  }
}

TEST(Json, ValuesOutliveMovesOfTheirDocument) {
  Result<Json> first = Json::Parse(R"({"a":"text that is long enough not to be stored inline"})");
  ASSERT_TRUE(first.has_value());
  Json second = std::move(*first);
  EXPECT_EQ(second.root().Find("a").AsString(), "text that is long enough not to be stored inline");
}

// The document a request refers to when it is refused, as the golden cases of all three APIs have
// it.
TEST(Json, RefusesTheBodiesOfTheGoldenCasesAndTakesOurs) {
  struct Case {
    const char* name;
    std::string body;
    bool accepted;
  };
  const Case cases[] = {
      {"not-json", "{nope", false},
      {"empty", "", false},
      {"array", "[]", true},  // JSON; its shape is the dialect's matter
      {"null", "null", true},
      {"trailing", "{\"model\": \"deepseek-flash\"}x", false},
      {"invalid-utf8", "{\"content\": \"\xFF\"}", false},
      {"lone-surrogate", "{\"content\": \"\\ud800\"}", true},
      {"raw-control-char",
       "{\"content\": \"a\x01"
       "b\"}",
       false},
      {"too-deep", "{\"zz\": " + Nested(128) + "}", false},
      {"number-overflow", "{\"temperature\": 1e999}", false},
  };
  for (const Case& c : cases) EXPECT_EQ(Json::Parse(c.body).has_value(), c.accepted) << c.name;
}

std::string RandomText(std::mt19937_64& random, int depth) {
  const char* scalars[] = {"0",        "-1",   "12.5",
                           "1e3",      "true", "false",
                           "null",     "\"\"", "\"a\\n\\u00e4\"",
                           "\"世界\"", "-0.0", "9007199254740993"};
  uint64_t pick = random() % 16;
  if (depth == 0 || pick < 12) return scalars[random() % std::size(scalars)];
  std::string out(1, pick < 14 ? '[' : '{');
  for (uint64_t i = 0, n = random() % 20; i < n; ++i) {
    if (i > 0) out += random() % 2 ? ", " : ",";
    if (pick >= 14) out += fmt::format("\"k{}\" :", random() % 30);
    out += RandomText(random, depth - 1);
  }
  return out + (pick < 14 ? ']' : '}');
}

// nlohmann's ordered parser is the oracle: same kinds, same order, last duplicate at the place of
// the first.
void ExpectSame(JsonValue ours, const nlohmann::ordered_json& theirs) {
  switch (ours.kind()) {
    case JsonKind::kNull:
      ASSERT_TRUE(theirs.is_null());
      return;
    case JsonKind::kBool:
      ASSERT_EQ(ours.AsBool(), theirs.get<bool>());
      return;
    case JsonKind::kInt:
      ASSERT_EQ(ours.AsInt64(), theirs.get<int64_t>());
      return;
    case JsonKind::kUint:
      ASSERT_EQ(ours.AsUint64(), theirs.get<uint64_t>());
      return;
    case JsonKind::kDouble:
      ASSERT_EQ(ours.AsDouble(), theirs.get<double>());
      return;
    case JsonKind::kString:
      ASSERT_EQ(ours.AsString(), theirs.get<std::string>());
      return;
    case JsonKind::kArray: {
      ASSERT_EQ(static_cast<size_t>(ours.size()), theirs.size());
      auto it = theirs.begin();
      for (JsonValue element : ours.elements()) ExpectSame(element, *it++);
      return;
    }
    case JsonKind::kObject: {
      ASSERT_EQ(static_cast<size_t>(ours.size()), theirs.size());
      auto it = theirs.begin();
      for (JsonMember member : ours.members()) {
        ASSERT_EQ(member.key, it.key());
        ExpectSame(member.value, *it++);
      }
      return;
    }
  }
}

TEST(Json, RandomDocumentsReadAsAnIndependentParserReadsThem) {
  std::mt19937_64 random(11);
  SCOPED_TRACE("seed 11");
  for (int i = 0; i < 500; ++i) {
    std::string text = RandomText(random, 5);
    Json json = Parsed(text);
    ExpectSame(json.root(), nlohmann::ordered_json::parse(text));
    ASSERT_EQ(TextOf(json.root().ToText()), json.root().ToText());
  }
}

TEST(Json, BrokenDocumentsAreRefusedAsByAnIndependentParser) {
  std::mt19937_64 random(13);
  SCOPED_TRACE("seed 13");
  constexpr std::string_view kBytes = "{}[],:\"\\u0123eE+-. \ntrfalsn\x01\xC3\xA4";
  for (int i = 0; i < 10'000; ++i) {
    std::string text = RandomText(random, 3);
    for (uint64_t k = 0; k <= random() % 3; ++k) {
      size_t at = random() % (text.size() + 1);
      char c = kBytes[random() % kBytes.size()];
      if (at < text.size() && random() % 2)
        text[at] = c;
      else
        text.insert(at, 1, c);
    }
    Result<Json> ours = Json::Parse(text);
    bool theirs = nlohmann::json::accept(text);
    ASSERT_EQ(ours.has_value(), theirs) << text << "\n" << ours.status().ToString();
    if (!theirs) {
      ASSERT_NE(ours.error().message().find("at byte"), std::string_view::npos) << text;
    }
  }
}

// Costs that grow faster than the text would let one client stop the prep threads. A quadratic way
// of handling any of these takes minutes, which the time limit of the suite notices.
TEST(Json, HostileShapesCostNoMoreThanTheirSize) {
  constexpr int kNumKeys = 100'000;
  std::string unique = "{", same = "{", nested_inner = "[";
  for (int i = 0; i < kNumKeys; ++i) {
    unique += fmt::format("\"{:06}\":0,", int64_t{i} * 7919 % kNumKeys);
    same += "\"k\":[{}],";
    nested_inner += "0,";
  }
  unique.back() = '}';
  same.back() = '}';
  nested_inner.back() = ']';
  EXPECT_EQ(Parsed(unique).root().size(), kNumKeys);
  EXPECT_EQ(TextOf(same), R"({"k":[{}]})");
  // Duplicates around duplicates: each level has the big value once dropped and once kept.
  std::string nested = nested_inner;
  for (int i = 0; i < 120; ++i) nested = "{\"a\":0,\"a\":" + nested + "}";
  EXPECT_EQ(TextOf(nested).size(), nested.size() - 120 * std::string_view("\"a\":0,").size());
  // An object with duplicates around many small ones with duplicates.
  std::string wide = "{";
  for (int i = 0; i < 30'000; ++i) wide += fmt::format("\"{}\":{{\"x\":1,\"x\":2}},", i % 29'999);
  wide.back() = '}';
  EXPECT_EQ(Parsed(wide).root().size(), 29'999);
}

}  // namespace
}  // namespace sluice
