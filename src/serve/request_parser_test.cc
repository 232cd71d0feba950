#include "serve/request_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::serve {
namespace {

constexpr RequestParser::Limits kLimits{.header_bytes = 1024, .body_bytes = 64};

// Feeds `bytes` in pieces of `n_piece` as a connection does; the bytes that belong to the next
// request stay in `rest`.
struct Fed {
  Status status;
  bool done = false;
  RequestHead head;
  std::string body;
  std::string rest;
};

Fed Feed(std::string_view bytes, size_t n_piece, const RequestParser::Limits& limits = kLimits) {
  RequestParser parser(limits);
  Fed fed;
  while (true) {
    Result<size_t> n = parser.Feed(fed.rest);
    if (!n) {
      fed.status = n.error();
      return fed;
    }
    fed.rest.erase(0, *n);
    if (parser.done()) break;
    if (*n > 0 && !fed.rest.empty()) continue;
    if (bytes.empty()) return fed;
    fed.rest += bytes.substr(0, n_piece);
    bytes.remove_prefix(std::min(n_piece, bytes.size()));
  }
  fed.done = true;
  fed.head = parser.head();
  fed.body = parser.TakeBody();
  fed.rest += bytes;
  return fed;
}

constexpr std::string_view kPost =
    "POST /v1/chat/completions?beta=true HTTP/1.1\r\nHost: LocalHost:8000\r\n"
    "Authorization: bearer  secret \r\n"
    "Content-Type: Application/JSON; charset=utf-8\r\n"
    "Content-Encoding: GZIP\r\nContent-Length: 5\r\n\r\nhello";

TEST(RequestParser, ResultDoesNotDependOnHowTheBytesAreCut) {
  for (size_t n_piece : {1, 2, 3, 7, 50, 1000}) {
    Fed fed = Feed(std::string(kPost) + "GET / HTTP/1.1\r\n", n_piece);
    ASSERT_TRUE(fed.done) << n_piece;
    EXPECT_EQ(fed.head.method, "POST");
    EXPECT_EQ(fed.head.path, "/v1/chat/completions");
    EXPECT_EQ(fed.head.host, "LocalHost:8000");
    EXPECT_EQ(fed.head.bearer, "secret");
    EXPECT_EQ(fed.head.content_type, "application/json");
    EXPECT_EQ(fed.head.content_encoding, "gzip");
    EXPECT_EQ(fed.head.content_length, 5);
    EXPECT_TRUE(fed.head.has_body);
    EXPECT_TRUE(fed.head.keep_alive);
    EXPECT_EQ(fed.body, "hello");
    EXPECT_EQ(fed.rest, "GET / HTTP/1.1\r\n");
  }
}

TEST(RequestParser, ReadsChunkedBodiesWithExtensionsAndTrailers) {
  std::string_view text =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=value\r\nabc\r\n02\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\nrest";
  for (size_t n_piece : {1, 4, 1000}) {
    Fed fed = Feed(text, n_piece);
    ASSERT_TRUE(fed.done) << fed.status.ToString();
    EXPECT_EQ(fed.body, "abcde");
    EXPECT_EQ(fed.rest, "rest");
  }
}

TEST(RequestParser, AbsoluteFormIsReducedToItsPath) {
  EXPECT_EQ(Feed("GET http://h:1/a/b?c=d HTTP/1.1\r\nHost: h\r\n\r\n", 1000).head.path, "/a/b");
  EXPECT_EQ(Feed("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", 1000).head.path, "/");
  EXPECT_EQ(Feed("GET http://h:1/a?c=d&e HTTP/1.1\r\nHost: h\r\n\r\n", 1000).head.query, "c=d&e");
  EXPECT_EQ(Feed("GET /a?b?c HTTP/1.1\r\nHost: h\r\n\r\n", 1000).head.query, "b?c");
  EXPECT_EQ(Feed("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", 1000).head.query, "");
}

TEST(RequestParser, OldVersionClosesUnlessAskedToStay) {
  EXPECT_FALSE(Feed("GET / HTTP/1.0\r\n\r\n", 1000).head.keep_alive);
  EXPECT_TRUE(Feed("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1000).head.keep_alive);
  EXPECT_FALSE(
      Feed("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 1000).head.keep_alive);
}

TEST(RequestParser, BodyLimitIsExactForLengthAndChunks) {
  auto counted = [](size_t n) {
    return "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(n) + "\r\n\r\n" +
           std::string(n, 'x');
  };
  auto chunked = [](size_t n) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx", n);
    return std::string("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") + size +
           "\r\n" + std::string(n, 'x') + "\r\n0\r\n\r\n";
  };
  EXPECT_TRUE(Feed(counted(64), 1000).done);
  EXPECT_EQ(Feed(counted(65), 1000).status.code(), ErrorCode::kTooLarge);
  EXPECT_TRUE(Feed(chunked(64), 1000).done);
  EXPECT_EQ(Feed(chunked(65), 1000).status.code(), ErrorCode::kTooLarge);
}

TEST(RequestParser, HeaderLimitsAreNamed) {
  std::string big = "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(2000, 'x') + "\r\n\r\n";
  EXPECT_EQ(Feed(big, 100).status.code(), ErrorCode::kHeaderTooLarge);
  std::string endless = "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(5000, 'x');
  EXPECT_EQ(Feed(endless, 100).status.code(), ErrorCode::kHeaderTooLarge);
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 128; ++i) many += "a:b\r\n";
  EXPECT_EQ(Feed(many + "\r\n", 1000, {.header_bytes = 65536, .body_bytes = 1}).status.code(),
            ErrorCode::kHeaderTooLarge);
}

TEST(RequestParser, HeaderLimitCountsTheWholeHead) {
  auto head = [](size_t n_bytes) {
    std::string text = "GET /" + std::string(500, 'p') + " HTTP/1.1\r\nHost: a\r\nX: ";
    return text + std::string(n_bytes - text.size() - 4, 'x') + "\r\n\r\n";
  };
  for (size_t n_piece : {1, 100, 5000}) {
    EXPECT_TRUE(Feed(head(1024), n_piece).done) << n_piece;
    EXPECT_EQ(Feed(head(1025), n_piece).status.code(), ErrorCode::kHeaderTooLarge) << n_piece;
  }
}

TEST(RequestParser, ExtensionsAreBoundedInTotal) {
  auto body = [](size_t n_extension, int n_chunks) {
    std::string text = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    std::string extension = n_extension > 0 ? ";" + std::string(n_extension, 'e') : "";
    for (int i = 0; i < n_chunks; ++i) text += "1" + extension + "\r\nx\r\n";
    return text + "0\r\n\r\n";
  };
  EXPECT_TRUE(Feed(body(0, 60), 1000).done) << "chunks of one byte are allowed";
  EXPECT_TRUE(Feed(body(500, 1), 1000).done);
  EXPECT_FALSE(Feed(body(500, 10), 1000).status.ok());
}

// Once an assertion in Beast: whoever sent an empty chunked body in pieces ended the process.
TEST(RequestParser, AChunkedBodyMayComeInAnyPieces) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::string_view body : {"0\r\n\r\n", "000;a=b\r\n\r\n", "0\r\nT: u\r\n\r\n",
                                "1\r\na\r\n0\r\n\r\n", "2\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n"}) {
    for (size_t n_piece = 1; n_piece < body.size() + 2; ++n_piece) {
      EXPECT_TRUE(Feed(head + std::string(body), n_piece).done) << body << " by " << n_piece;
    }
  }
}

TEST(RequestParser, AnAbsoluteTargetIsItsPath) {
  const std::pair<std::string_view, std::string_view> kTargets[] = {
      {"http://a/v1/models", "/v1/models"},
      {"HTTPS://a/v1/models?x=/y", "/v1/models"},
      {"http://a", "/"},
      {"http://a?/v1/models", "/"},
      {"/v1/models?x#y", "/v1/models"}};
  for (const auto& [target, path] : kTargets) {
    RequestParser parser({.header_bytes = 4096, .body_bytes = 100});
    const std::string text = "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    ASSERT_TRUE(parser.Feed(text)) << target;
    EXPECT_EQ(parser.head().path, path) << target;
  }
}

TEST(RequestParser, AnUnfinishedChunkHeadIsBounded) {
  std::string text = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                     std::string(5000, 'e');
  EXPECT_FALSE(Feed(text, 100).status.ok());
}

TEST(RequestParser, RefusesWhatCouldBeReadInTwoWays) {
  for (std::string_view text : {
           "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
           "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
           "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
           "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked, gzip\r\n"
           "Content-Length: 1\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\n",
           "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
           "GET /\r\n\r\n",
           "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
           "GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n",
           "\x16\x03\x01\x02\x00\x01",
       }) {
    Fed fed = Feed(text, 1000);
    EXPECT_FALSE(fed.status.ok()) << text;
    EXPECT_FALSE(fed.done) << text;
  }
}

}  // namespace
}  // namespace sluice::serve
