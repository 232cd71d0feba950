#include "codec/dialect/responses/free_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sluice::codec::responses {
namespace {

std::string Read(std::string_view arguments, size_t n) {
  FreeText text;
  std::string out;
  for (size_t at = 0; at < arguments.size(); at += n) text.Push(arguments.substr(at, n), out);
  text.End(out);
  return out;
}

struct Case {
  const char* arguments;
  const char* text;
};

// Whatever the arguments are and however they come.
TEST(FreeText, IsTheDecodedInputOrElseTheArgumentsAsTheyAre) {
  const Case kCases[] = {
      {R"({"input": "a\n\t\"b\" \\ \/ é"})", "a\n\t\"b\" \\ / é"},
      {R"({"input":"x"})", "x"},
      {" {\n\"input\"\t:  \"x\" } ", "x"},
      {R"({"input": ""})", ""},
      {R"({"input": "x", "more": "y"})", "x"},
      {R"({"input": "\u0041\u00e9\u20AC\ud83d\ude00\b\f\r"})", "Aé€😀\b\f\r"},
      {R"({"input": "\ud83d"})", "\xEF\xBF\xBD"},
      {R"({"input": "\ud83dx\ude00"})", "\xEF\xBF\xBDx\xEF\xBF\xBD"},
      {R"({"input": "\ud83d\ud83d\ude00"})", "\xEF\xBF\xBD😀"},
      {R"({"input": "\ud83d\n"})", "\xEF\xBF\xBD\n"},
      {R"({"input": "\u12"})", "\xEF\xBF\xBD}"},
      {R"({"patch": "x"})", R"({"patch": "x"})"},
      {R"({"input": 5})", R"({"input": 5})"},
      {R"({"in put": "x"})", R"({"in put": "x"})"},
      {R"({"inputs": "x"})", R"({"inputs": "x"})"},
      {"{}", "{}"},
      {"", ""},
      {"plain text", "plain text"},
      {R"("x")", R"("x")"},
      // Cut.
      {R"({"input": "*** Beg)", "*** Beg"},
      {R"({"input": "a\)", "a"},
      {R"({"input": "a\u00)", "a"},
      {R"({"inp)", R"({"inp)"},
      {R"({"input" : )", R"({"input" : )"},
  };
  for (const Case& c : kCases) {
    for (size_t n : {1u, 2u, 3u, 7u, 1000u}) EXPECT_EQ(Read(c.arguments, n), c.text) << n;
  }
}

TEST(FreeText, TextComesAsSoonAsItIsKnown) {
  FreeText text;
  std::string out;
  text.Push(R"({"input": "ab)", out);
  EXPECT_EQ(out, "ab");
  text.Push("\\", out);
  EXPECT_EQ(out, "ab");
  text.Push("nc", out);
  EXPECT_EQ(out, "ab\nc");
}

}  // namespace
}  // namespace sluice::codec::responses
