// FairQueue: the requests that wait, and whose turn it is. Three rules, from the outside in:
//
// 1. Classes come strictly one after the other. A class that has waited for kClassPatience without
//    a turn gets one: so the lowest one moves, too.
// 2. Inside a class keys take turns by cost: next is the key that has been given the least, counted
//    from when it began to wait (virtual counters, as in "Fairness in Serving Large Language
//    Models", 2024). A key with one request waits for one turn of each other key at most.
// 3. Inside a key first come, first served.
//
// What a request finds in a prefix cache is not known here, so its whole prompt counts.
// Thread-compatible.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "wire/event_queue.h"
#include "wire/request.h"

namespace sluice::cluster {

inline constexpr Duration kClassPatience = Duration::Seconds(10);

struct WaitingRequest {
  wire::GenerateRequest request;
  wire::EventQueue* out = nullptr;
  Time since;

  int64_t n_prompt() const { return std::ssize(*request.prompt); }
};

// What a request will take of an engine, in tokens of a prompt.
int64_t CostOf(const wire::GenerateRequest& request);

class FairQueue {
 public:
  void Push(WaitingRequest waiting);
  // The next one. Must not be empty.
  WaitingRequest Pop(Time now);
  // Nothing if it does not wait here.
  std::optional<WaitingRequest> Remove(RequestId id);
  // One whose deadline has passed.
  std::optional<WaitingRequest> TakeLate(Time now);
  // Any of them, at the end. Nothing when empty.
  std::optional<WaitingRequest> TakeAny();

  bool empty() const { return places_.empty(); }
  Time next_deadline() const {
    return deadlines_.empty() ? Time::Max() : deadlines_.begin()->first;
  }

  struct Share {
    int64_t n_requests = 0;
    int64_t n_tokens = 0;  // of prompts
  };
  const Share& total() const { return total_; }
  Share ShareOf(KeyId key) const;
  // Cost of what would have its turn before this request.
  int64_t CostBefore(const wire::GenerateRequest& request) const;

 private:
  struct Lane {  // of one key
    std::list<WaitingRequest> waiting;
    int64_t given = 0;  // cost, counted on the clock of the class
    int64_t cost = 0;   // of what waits
  };
  using Turns = std::set<std::pair<int64_t, KeyId>>;  // by what they were given
  struct ClassQueue {
    std::map<KeyId, Lane> lanes;
    Turns waiting;
    // Those that wait no more but had more than their turn: it counts when they come back.
    Turns ahead;
    int64_t clock = 0;  // what the last one to have its turn had been given before it
    int64_t cost = 0;   // of all that waits
    Time due;           // when it gets a turn whatever waits above it
  };
  struct Place {
    wire::RequestClass request_class;
    KeyId key;
    std::list<WaitingRequest>::iterator at;
  };

  ClassQueue& Of(wire::RequestClass c) { return classes_[static_cast<size_t>(c)]; }
  const ClassQueue& Of(wire::RequestClass c) const { return classes_[static_cast<size_t>(c)]; }
  ClassQueue& NextClass(Time now);
  WaitingRequest Take(Place place);

  std::array<ClassQueue, wire::kNumRequestClasses> classes_;
  std::unordered_map<uint64_t, Place> places_;  // by RequestId
  std::set<std::pair<Time, uint64_t>> deadlines_;
  std::map<KeyId, Share> shares_;
  Share total_;
};

}  // namespace sluice::cluster
