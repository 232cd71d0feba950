// What the tests of ScriptedService share: scripts, requests, a consumer, and a service in virtual
// time. Thread-compatible.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "wire/scripted_service.h"

namespace sluice::wire {

constexpr Time At(int64_t millis) { return Time{millis * 1'000'000}; }

inline ScriptPlay Say(std::string_view text) {
  ScriptPlay play;
  for (char c : text) play.ids.push_back(TokenId(static_cast<unsigned char>(c)));
  return play;
}

inline ScriptPlay SayWithFault(std::string_view text,
                               ScriptPlay::Fault fault,
                               int32_t fault_after) {
  ScriptPlay play = Say(text);
  play.fault = fault;
  play.fault_after = fault_after;
  return play;
}

inline GenerateRequest Ask(uint64_t id, ScriptPlay play) {
  GenerateRequest request;
  request.id = RequestId(id);
  request.prompt = std::make_shared<const std::vector<TokenId>>(3, TokenId(1));
  request.n_max = 1'000'000;
  request.script = std::make_unique<const ScriptPlay>(std::move(play));
  return request;
}

// The consumer of one request: pops when told to, keeps what it got.
struct Listener {
  explicit Listener(ReadyList& ready) : queue(ready, node) {}

  void Drain() {
    if (ended()) return;
    TokenEvent event;
    while (!ended() && queue.TryPop(event)) {
      for (TokenId token : event.tokens) text += static_cast<char>(token.value);
      events.push_back(std::move(event));
    }
    if (!ended()) queue.Drained();
  }
  bool ended() const { return !events.empty() && events.back().end != nullptr; }
  const EventEnd& end() const { return *events.back().end; }

  ReadyList::Node node;
  EventQueue queue;
  std::vector<TokenEvent> events;
  std::string text;
};

// A service in virtual time with its consumers.
struct ServiceInVirtualTime {
  ScriptedService& Start(int32_t max_running = 4, int32_t max_waiting = 4) {
    service = std::make_unique<ScriptedService>(ScriptedService::Params{
        .max_running = max_running,
        .max_waiting = max_waiting,
        .bell = {.ring = [](void* n) { ++*static_cast<int*>(n); }, .context = &n_bells}});
    return *service;
  }
  Listener& Listen() { return listeners.emplace_back(ready); }
  // Steps and drains at `now` until nothing more happens at that time.
  void RunAt(Time now) {
    Time next = now;
    for (int i = 0; next <= now; ++i) {
      SLUICE_CHECK(i < 100'000);  // it never rests
      next = service->Step(now);
      bool got_some = false;
      for (Listener& listener : listeners) {
        size_t before = listener.events.size();
        listener.Drain();
        got_some = got_some || listener.events.size() != before;
      }
      if (got_some) next = now;  // there may be room now
    }
  }

  int n_bells = 0;
  ReadyList ready{Bell{}};
  std::deque<Listener> listeners;
  std::unique_ptr<ScriptedService> service;
};

}  // namespace sluice::wire
