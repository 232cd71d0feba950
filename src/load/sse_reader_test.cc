#include "load/sse_reader.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace sluice::load {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

Events Read(std::initializer_list<std::string_view> pieces) {
  SseReader reader;
  std::vector<SseEvent> events;
  for (const std::string_view piece : pieces) EXPECT_TRUE(reader.Push(piece, events).ok());
  Events out;
  for (const SseEvent& event : events) out.emplace_back(event.name, event.data);
  return out;
}

constexpr std::string_view kStream =
    ": keep-alive\n\n"
    "data: {\"a\":\"\xF0\x9F\x99\x82\"}\n\n"
    "event: message_stop\r\ndata: one\r\ndata:two\r\n\r\n"
    "event: lost\n\n"
    "data\rid: 7\r\r"
    "data:  spaced\nunknown: x\n\n";

const Events kWant = {
    {"", "{\"a\":\"\xF0\x9F\x99\x82\"}"}, {"message_stop", "one\ntwo"}, {"", ""}, {"", " spaced"}};

TEST(SseReader, ReadsEveryLineEnd) { EXPECT_EQ(Read({kStream}), kWant); }

TEST(SseReader, EveryCutGivesTheSameEvents) {
  for (size_t i = 0; i <= kStream.size(); ++i) {
    for (size_t j = i; j <= kStream.size(); ++j) {
      ASSERT_EQ(Read({kStream.substr(0, i), kStream.substr(i, j - i), kStream.substr(j)}), kWant)
          << i << " " << j;
    }
  }
}

TEST(SseReader, OneByteAtATimeGivesTheSameEvents) {
  SseReader reader;
  std::vector<SseEvent> events;
  for (const char& c : kStream) ASSERT_TRUE(reader.Push({&c, 1}, events).ok());
  ASSERT_EQ(events.size(), kWant.size());
  EXPECT_FALSE(reader.is_inside());
}

TEST(SseReader, AnEventWithoutItsEndIsNoEvent) {
  SseReader reader;
  std::vector<SseEvent> events;
  ASSERT_TRUE(reader.Push("data: a\n", events).ok());
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(reader.is_inside());
}

TEST(SseReader, AnEventAboveItsLimitIsRefused) {
  SseReader reader;
  std::vector<SseEvent> events;
  const std::string line = "data: " + std::string(limits::kMaxSseEventBytes / 2, 'x') + "\n";
  EXPECT_TRUE(reader.Push(line, events).ok());
  EXPECT_EQ(reader.Push(line, events).code(), ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace sluice::load
