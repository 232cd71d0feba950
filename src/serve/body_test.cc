#include "serve/body.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>

namespace sluice::serve {
namespace {

std::string Deflated(std::string_view text, int window_bits) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1024, 0);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string Encoded(std::string_view encoding, std::string_view text) {
  if (encoding == "gzip") return Deflated(text, 15 + 16);
  if (encoding == "deflate") return Deflated(text, 15);
  std::string out(ZSTD_compressBound(text.size()), 0);
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class Body : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Encodings, Body, testing::Values("gzip", "deflate", "zstd"));

TEST_P(Body, DecodesWhatWasEncoded) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919);
  for (size_t n : {size_t{1}, size_t{1000}, text.size()}) {
    std::string_view want = std::string_view(text).substr(0, n);
    Result<std::string> got = DecodeBody(GetParam(), Encoded(GetParam(), want), 1 << 24);
    ASSERT_TRUE(got.has_value()) << got.error().ToString();
    EXPECT_EQ(*got, want);
  }
}

TEST_P(Body, LimitIsExactAndStopsABomb) {
  constexpr int64_t kLimit = 1 << 20;
  EXPECT_TRUE(
      DecodeBody(GetParam(), Encoded(GetParam(), std::string(kLimit, 'x')), kLimit).has_value());
  for (int64_t n : {kLimit + 1, int64_t{100} << 20}) {
    Result<std::string> got =
        DecodeBody(GetParam(), Encoded(GetParam(), std::string(n, 'x')), kLimit);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code(), ErrorCode::kTooLarge);
  }
}

TEST_P(Body, BrokenDataIsTheClientsFault) {
  std::string good = Encoded(GetParam(), "some text that is long enough to be worth it, some text");
  for (std::string bad : {std::string(), std::string("x"), good.substr(0, good.size() - 1),
                          good + "x", std::string(good).replace(8, 4, "\xff\xff\xff\xff")}) {
    Result<std::string> got = DecodeBody(GetParam(), bad, 1 << 20);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code(), ErrorCode::kInvalidArgument);
  }
}

TEST(BodyEncodings, OnlyThoseOfTheDocumentationAreTaken) {
  EXPECT_TRUE(CanDecode("gzip") && CanDecode("deflate") && CanDecode("zstd"));
  EXPECT_FALSE(CanDecode("br") || CanDecode("") || CanDecode("gzip, gzip"));
}

TEST(Body, SeveralMembersOrFramesAreOneBody) {
  const std::string gzip = Encoded("gzip", "{\"a\":") + Encoded("gzip", "") + Encoded("gzip", "1}");
  const std::string zstd = Encoded("zstd", "{\"a\":") + Encoded("zstd", "1}");
  EXPECT_EQ(*DecodeBody("gzip", gzip, 100), "{\"a\":1}");
  EXPECT_EQ(*DecodeBody("x-gzip", gzip, 100), "{\"a\":1}");
  EXPECT_EQ(*DecodeBody("zstd", zstd, 100), "{\"a\":1}");
  EXPECT_FALSE(DecodeBody("gzip", gzip, 5));
  EXPECT_FALSE(DecodeBody("gzip", gzip + "x", 100));
  EXPECT_FALSE(DecodeBody("zstd", zstd + "x", 100));
}

}  // namespace
}  // namespace sluice::serve
