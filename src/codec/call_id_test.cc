#include "codec/call_id.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <set>

namespace sluice::codec {
namespace {

// The last four digits by the rule, for ids of the reference (spec recipe.md §8.6) and ours.
std::string ChecksumOf(std::string_view id) {
  std::string plain;
  for (const char c : id.substr(0, id.size() - 4)) {
    if (c != '_') plain += c;
  }
  const std::string digits = std::to_string(XXH3_64bits(plain.data(), plain.size()) % 10'000);
  return std::string(4 - digits.size(), '0') + digits;
}

TEST(CallId, HasTheChecksumOfTheReference) {
  const std::string ids[] = {
      "call_00_ET_3mnYSNnQVSAA8LMuedgL9601", "call_00_doCQlsFhfQV2T1uf4j3D5308",
      MakeCallId({.entropy = 7}),
      MakeCallId({.entropy = 8, .choice = 1, .call = 12, .without_thought = true})};
  for (const std::string& id : ids) {
    EXPECT_EQ(id.substr(id.size() - 4), ChecksumOf(id)) << id;
  }
}

TEST(CallId, TellsIndexAndMissingThought) {
  const std::string plain = MakeCallId({.entropy = 1, .call = 3});
  EXPECT_EQ(plain.substr(0, 8), "call_03_");
  EXPECT_EQ(plain.size(), 8u + 20 + 4);
  EXPECT_FALSE(HasEmptyThinkingMark(plain));
  const std::string marked = MakeCallId({.entropy = 1, .without_thought = true});
  EXPECT_EQ(marked.substr(0, 11), "call_00_ET_");
  EXPECT_EQ(marked.size(), 11u + 20 + 4);
  EXPECT_TRUE(HasEmptyThinkingMark(marked));
  EXPECT_TRUE(HasEmptyThinkingMark("call00ET3mnYSNnQVSAA8LMuedgL9601"));
  EXPECT_FALSE(HasEmptyThinkingMark("toolu_01"));
}

TEST(CallId, DiffersByAnswerChoiceAndCall) {
  std::set<std::string> ids;
  for (uint64_t entropy : {1, 2}) {
    for (int32_t choice : {0, 1}) {
      for (int32_t call : {0, 1}) {
        ids.insert(MakeCallId({.entropy = entropy, .choice = choice, .call = call}).substr(8, 20));
      }
    }
  }
  EXPECT_EQ(ids.size(), 8u);
}

}  // namespace
}  // namespace sluice::codec
