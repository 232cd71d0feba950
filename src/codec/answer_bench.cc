// Events per second of hop 10: two-byte deltas of one choice into SSE frames, on one core.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/limits.h"
#include "codec/answer.h"
#include "codec/sample_format_test_impl.h"
#include "codec/turn_memory.h"

namespace {

using sluice::TokenId;
using sluice::codec::Answer;

constexpr int kEvents = 200'000;
constexpr int kRounds = 7;

// Large enough for all events of a round, which are one turn.
sluice::codec::TurnMemory& Memory() {
  static sluice::codec::TurnMemory memory(int64_t{64} * 1024 * 1024);
  return memory;
}

Answer Make(bool thinking, std::vector<std::string> stops, bool is_kept = false) {
  sluice::codec::AnswerSpec spec;
  spec.model = "deepseek-flash";
  spec.thinking = thinking;
  spec.start =
      thinking ? sluice::codec::OutputStart::kReasoning : sluice::codec::OutputStart::kContent;
  spec.stream = true;
  spec.stops = std::move(stops);
  spec.parses_calls = true;
  if (is_kept) spec.turn.memory = &Memory();
  return Answer(sluice::codec::Dialects()[0], sluice::codec::SampleFormat(), spec,
                {.id = "0123456789abcdef",
                 .created = {1'700'000'000'000'000'000},
                 .fingerprint = "sluice-0.1"});
}

sluice::wire::TokenEvent Event(int i) {
  sluice::wire::TokenEvent event;
  event.tokens.push_back(TokenId('a' + i % 26));
  event.tokens.push_back(TokenId(i % 7 == 0 ? ' ' : 'a' + i % 13));
  return event;
}

std::vector<sluice::wire::TokenEvent> Turn() {
  std::vector<sluice::wire::TokenEvent> events;
  for (int i = 0; i < sluice::limits::kMaxTurnTokens / 2; ++i) events.push_back(Event(i));
  return events;
}

// The text that the frames carry, read back independently of the encoder.
std::string TextOf(const std::string& stream) {
  const std::string key = "\"content\":\"";
  std::string text;
  for (size_t at = stream.find(key); at != std::string::npos; at = stream.find(key, at)) {
    at += key.size();
    text += stream.substr(at, stream.find('"', at) - at);
  }
  return text;
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

double NanosPerEvent(const std::vector<sluice::wire::TokenEvent>& events,
                     bool thinking,
                     std::vector<std::string> stops,
                     bool is_kept) {
  Answer answer = Make(thinking, std::move(stops), is_kept);
  std::string out;
  size_t n_bytes = 0;
  auto begin = std::chrono::steady_clock::now();
  for (const sluice::wire::TokenEvent& event : events) {
    answer.OnEvent(0, event, out);
    if (out.size() < 16 * 1024) continue;
    n_bytes += out.size();
    out.clear();
  }
  std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  Require(n_bytes + out.size() > events.size() * 100, "frames are missing");
  return spent.count() / static_cast<double>(events.size());
}

void Report(const char* name,
            const std::vector<sluice::wire::TokenEvent>& events,
            bool thinking,
            const std::vector<std::string>& stops,
            bool is_kept = false) {
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i)
    rounds.push_back(NanosPerEvent(events, thinking, stops, is_kept));
  std::sort(rounds.begin(), rounds.end());
  const double median = rounds[kRounds / 2];
  std::printf("%-18s %7.1f ns/event  %9.0f events/s  (%.1f to %.1f ns)\n", name, median,
              1e9 / median, rounds.front(), rounds.back());
}

}  // namespace

int main() {
  std::vector<sluice::wire::TokenEvent> events;
  std::string expected;
  for (int i = 0; i < kEvents; ++i) {
    events.push_back(Event(i));
    for (TokenId token : events.back().tokens) expected += static_cast<char>(token.value);
  }
  Answer answer = Make(/*thinking=*/false, {});
  std::string out;
  for (const sluice::wire::TokenEvent& event : events) answer.OnEvent(0, event, out);
  Require(TextOf(out) == expected, "the frames do not carry the text");

  Report("content", events, /*thinking=*/false, {});
  // As long as a turn that is kept may be, half of kMaxTurnTokens events; alternated with the same
  // events without a memory.
  const std::vector<sluice::wire::TokenEvent> turn = Turn();
  Report("a turn", turn, /*thinking=*/false, {});
  Report("a turn, kept", turn, /*thinking=*/false, {}, /*is_kept=*/true);
  Report("a turn", turn, /*thinking=*/false, {});
  Report("a turn, kept", turn, /*thinking=*/false, {}, /*is_kept=*/true);
  Report("reasoning", events, /*thinking=*/true, {});
  Report("content, one stop", events, /*thinking=*/false, {"STOP"});
  // A call's argument: what agents wait for.
  const std::string_view opening =
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" string=\"true\">";
  std::vector<TokenId> ids;
  sluice::codec::SampleFormat().bpe().EncodeWithAdded(opening, ids);
  events.front().tokens.assign(ids.begin(), ids.end());
  Report("argument", events, /*thinking=*/false, {});
  return 0;
}
