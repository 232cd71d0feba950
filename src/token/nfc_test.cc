#include "token/nfc.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::token {
namespace {

std::string Nfc(std::string_view text) {
  std::string buffer;
  return std::string(ToNfc(text, buffer));
}

TEST(Nfc, ComposesAndOrdersMarks) {
  EXPECT_EQ(Nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(Nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(Nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(Nfc("\uD558\u11AB"), "\uD55C");
  EXPECT_EQ(Nfc("\u212B \u2126"), "\u00C5 \u03A9");
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093C") << "excluded from composition";
  EXPECT_EQ(Nfc("\uFB01"), "\uFB01") << "only canonical forms are touched";
}

TEST(Nfc, WhatIsComposedAlreadyIsNotCopied) {
  std::string buffer;
  for (const std::string_view text : {"", "plain", "\u00E9\u4E2D\U0001F642", "\xFF\xCC"}) {
    EXPECT_EQ(ToNfc(text, buffer).data(), text.data());
  }
}

TEST(Nfc, BrokenBytesStayAndNothingComposesAcrossThem) {
  EXPECT_EQ(Nfc("e\xFF\u0301"), "e\xFF\u0301");
  EXPECT_EQ(Nfc("e\u0301\xCC"), "\u00E9\xCC");
}

TEST(Nfc, AMillionMarksInTheWrongOrderTakeNoQuadraticTime) {
  std::string text = "a";
  std::string wanted = "\u1EA1";
  constexpr int kPairs = 250'000;
  for (int i = 0; i < kPairs; ++i) text += "\u0301\u0323";
  for (int i = 1; i < kPairs; ++i) wanted += "\u0323";
  for (int i = 0; i < kPairs; ++i) wanted += "\u0301";
  EXPECT_EQ(Nfc(text), wanted);
}

}  // namespace
}  // namespace sluice::token
