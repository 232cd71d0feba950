#include "load/response_reader.h"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

constexpr std::string_view kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
    "7\r\ndata: a\r\n0c\r\n\n\ndata: bcd\n\r\n1\r\n\n\r\n0\r\n\r\n";
constexpr std::string_view kBody = "data: a\n\ndata: bcd\n\n";

// Gives bytes as a connection does: what was not taken comes again, longer.
class Fed {
 public:
  Status Give(std::string_view bytes) {
    inbox_ += bytes;
    const Result<size_t> n = reader.Feed(inbox_, body);
    if (!n) return n.error();
    inbox_.erase(0, *n);
    return Status::Ok();
  }
  ResponseReader reader;
  std::string body;

 private:
  std::string inbox_;
};

TEST(ResponseReader, EveryCutGivesTheSameBody) {
  for (size_t i = 0; i <= kChunked.size(); ++i) {
    for (size_t j = i; j <= kChunked.size(); ++j) {
      Fed fed;
      ASSERT_TRUE(fed.Give(kChunked.substr(0, i)).ok());
      ASSERT_TRUE(fed.Give(kChunked.substr(i, j - i)).ok());
      ASSERT_TRUE(fed.Give(kChunked.substr(j)).ok());
      ASSERT_TRUE(fed.reader.done()) << i << " " << j;
      ASSERT_EQ(fed.body, kBody);
      ASSERT_EQ(fed.reader.status(), 200);
      ASSERT_TRUE(fed.reader.is_event_stream());
      ASSERT_TRUE(fed.reader.keep_alive());
    }
  }
}

TEST(ResponseReader, ABodyOfKnownLengthEndsWithoutTheConnection) {
  Fed fed;
  ASSERT_TRUE(fed.Give("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n"
                       "Connection: close\r\n\r\n{}")
                  .ok());
  EXPECT_TRUE(fed.reader.done());
  EXPECT_EQ(fed.reader.status(), 429);
  EXPECT_FALSE(fed.reader.keep_alive());
  EXPECT_FALSE(fed.reader.is_event_stream());
}

TEST(ResponseReader, AnEndInsideIsAnError) {
  for (size_t n = 0; n < kChunked.size(); ++n) {
    Fed fed;
    ASSERT_TRUE(fed.Give(kChunked.substr(0, n)).ok());
    EXPECT_FALSE(fed.reader.End().ok()) << n;
  }
  Fed whole;
  ASSERT_TRUE(whole.Give(kChunked).ok());
  EXPECT_TRUE(whole.reader.End().ok());
}

TEST(ResponseReader, ABodyWithoutLengthEndsWithTheConnection) {
  Fed fed;
  ASSERT_TRUE(fed.Give("HTTP/1.1 200 OK\r\n\r\nabc").ok());
  EXPECT_FALSE(fed.reader.done());
  EXPECT_TRUE(fed.reader.End().ok());
  EXPECT_EQ(fed.body, "abc");
}

TEST(ResponseReader, NoiseIsRefused) {
  EXPECT_FALSE(Fed().Give("SSH-2.0-x\r\n\r\n").ok());
  EXPECT_FALSE(Fed().Give("HTTP/1.1 100 Continue\r\n\r\n").ok());
  EXPECT_FALSE(Fed().Give("HTTP/1.1 200 OK\r\n" + std::string(1'000'000, 'x')).ok());
}

}  // namespace
}  // namespace sluice::load
