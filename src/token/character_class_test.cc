#include "token/character_class.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"

namespace sluice::token {
namespace {

// The tables are those of Unicode 16.0 and of nothing else: other ids follow from other versions.
TEST(CharacterClass, IsThatOfUnicode16ForEveryCodePoint) {
  std::stringstream text;
  text << std::ifstream(SLUICE_SOURCE_DIR "/tools/unicode16_ranges.json").rdbuf();
  const Result<Json> json = Json::Parse(text.str());
  ASSERT_TRUE(json.has_value());
  const std::map<std::string, uint8_t> bits = {{"L", kLetter}, {"M", kMark},
                                               {"N", kNumber}, {"P", kSymbol},
                                               {"S", kSymbol}, {"White_Space", kSpace}};
  std::vector<uint8_t> wanted(kMaxCodePoint + 1);
  for (const auto& [name, bit] : bits) {
    for (const JsonValue range : json->root().Find(name).elements()) {
      std::vector<uint32_t> ends;
      for (const JsonValue end : range.elements()) {
        ends.push_back(static_cast<uint32_t>(end.AsInt64()));
      }
      for (uint32_t point = ends[0]; point <= ends[1]; ++point) wanted[point] |= bit;
    }
  }
  for (uint32_t point = 0; point <= kMaxCodePoint; ++point) {
    if (point == '\r' || point == '\n') wanted[point] |= kNewline;
    const bool is_cjk =
        (point >= 0x4E00 && point <= 0x9FA5) || (point >= 0x3040 && point <= 0x30FF);
    if (is_cjk) wanted[point] |= kCjk;
    ASSERT_EQ(CharacterClasses()[point], wanted[point]) << "code point " << point;
  }
  // New in 16.0 and in 17.0.
  EXPECT_EQ(CharacterClasses()[0x1C89], kLetter);
  EXPECT_EQ(CharacterClasses()[0x20C1], 0);
}

}  // namespace
}  // namespace sluice::token
