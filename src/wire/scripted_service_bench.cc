// Events per second of ScriptedService and its queues: 256 sequences without delay, one token an
// event, service and consumer alternating in one thread. Checks every token, then prints. Seconds
// are those of the processor, so that a busy machine does not change them.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "base/check.h"
#include "wire/scripted_service.h"

namespace sluice::wire {
namespace {

constexpr int32_t kSequences = 256;
constexpr int32_t kTokens = 4'000;  // a sequence
constexpr int kRounds = 9;

struct Stream : ReadyList::Node {
  explicit Stream(ReadyList& ready) : queue(ready, *this) {}
  EventQueue queue;
  int32_t n_tokens = 0;
  bool ended = false;
};

TokenId TokenAt(int32_t pos) { return TokenId(pos * 31 % 257); }

void Consume(Stream& stream) {
  TokenEvent event;
  while (!stream.ended && stream.queue.TryPop(event)) {
    SLUICE_CHECK(event.first_index == stream.n_tokens);
    for (TokenId token : event.tokens) SLUICE_CHECK(token == TokenAt(stream.n_tokens++));
    if (event.end == nullptr) continue;
    SLUICE_CHECK(event.end->finish == FinishReason::kEnd && stream.n_tokens == kTokens);
    stream.ended = true;
  }
  if (!stream.ended) stream.queue.Drained();
}

// Seconds for all sequences, the consumer reading after every `steps_per_drain` steps.
double RunOnce(int steps_per_drain) {
  ReadyList ready{Bell{}};
  std::vector<std::unique_ptr<Stream>> streams;
  ScriptedService service({.max_running = kSequences, .max_waiting = 0, .bell = {}});
  for (int32_t i = 0; i < kSequences; ++i) {
    streams.push_back(std::make_unique<Stream>(ready));
    ScriptPlay play;
    for (int32_t pos = 0; pos < kTokens; ++pos) play.ids.push_back(TokenAt(pos));
    GenerateRequest request;
    request.id = RequestId(static_cast<uint64_t>(i) + 1);
    request.deadline = Time{1'000'000'000};
    request.prompt = std::make_shared<const std::vector<TokenId>>(1, TokenId(1));
    request.n_max = kTokens + 1;
    request.script = std::make_unique<const ScriptPlay>(std::move(play));
    SLUICE_CHECK(service.Submit(std::move(request), streams.back()->queue).ok());
  }
  const std::clock_t start = std::clock();
  while (!service.idle()) {
    for (int i = 0; i < steps_per_drain; ++i) service.Step(Time{});
    ready.TakeAll([](ReadyList::Node& node) { Consume(static_cast<Stream&>(node)); });
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  for (const auto& stream : streams) SLUICE_CHECK(stream->ended);
  return seconds;
}

void Measure(const char* name, int steps_per_drain) {
  std::vector<double> rates;
  RunOnce(steps_per_drain);
  for (int round = 0; round < kRounds; ++round) {
    rates.push_back(double{kSequences} * (kTokens + 1) / RunOnce(steps_per_drain));
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%-24s %11.0f events/cpu-s  (min %.0f, max %.0f, %d rounds)\n", name,
              rates[kRounds / 2], rates.front(), rates.back(), kRounds);
}

}  // namespace
}  // namespace sluice::wire

int main() {
  sluice::wire::Measure("drained every step", 1);
  sluice::wire::Measure("drained every 8 steps", 8);
  // The consumer is behind by more than a queue holds: every 15 events a pause and a room bell.
  sluice::wire::Measure("drained every 20 steps", 20);
}
