#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

ConstBytes Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string Hex(std::string_view text) {
  std::string out;
  for (std::byte b : Sha256(Bytes(text))) {
    out += "0123456789abcdef"[static_cast<int>(b) >> 4];
    out += "0123456789abcdef"[static_cast<int>(b) & 15];
  }
  return out;
}

TEST(Sha256, MatchesTheVectorsOfTheStandard) {  // FIPS 180-2, appendix B
  EXPECT_EQ(Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(ConstantTimeEqual, ComparesContentAndLength) {
  EXPECT_TRUE(ConstantTimeEqual(Bytes("key"), Bytes("key")));
  EXPECT_TRUE(ConstantTimeEqual({}, {}));
  EXPECT_FALSE(ConstantTimeEqual(Bytes("key"), Bytes("kez")));
  EXPECT_FALSE(ConstantTimeEqual(Bytes("key"), Bytes("key ")));
  EXPECT_FALSE(ConstantTimeEqual(Bytes("key"), {}));
}

}  // namespace
}  // namespace sluice
