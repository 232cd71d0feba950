#include "cluster/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::cluster {
namespace {

// A generated token against one of a prompt: 64 us to 10.7 us of a GPU (spec pd-and-routing.md §2).
constexpr int64_t kOutputCost = 6;
// Limits say little about how long an answer becomes: clients ask for 32,000 and take a few hundred
// (spec http-api.md §10, pd-and-routing.md §2).
constexpr int64_t kExpectedOutput = 512;

}  // namespace

int64_t CostOf(const wire::GenerateRequest& request) {
  return std::ssize(*request.prompt) +
         kOutputCost * std::min<int64_t>(request.n_max, kExpectedOutput);
}

void FairQueue::Push(WaitingRequest waiting) {
  const wire::GenerateRequest& request = waiting.request;
  const KeyId key = request.key;
  const uint64_t id = request.id.value;
  const int64_t cost = CostOf(request);
  ClassQueue& queue = Of(request.request_class);
  if (queue.waiting.empty()) queue.due = waiting.since + kClassPatience;
  Lane& lane = queue.lanes[key];
  if (lane.waiting.empty()) {
    queue.ahead.erase({lane.given, key});
    // Who did not wait saves nothing up.
    lane.given = std::max(lane.given, queue.clock);
    queue.waiting.insert({lane.given, key});
  }
  lane.cost += cost;
  queue.cost += cost;
  Share& share = shares_[key];
  for (Share* sum : {&share, &total_}) {
    ++sum->n_requests;
    sum->n_tokens += waiting.n_prompt();
  }
  if (request.deadline != Time::Max()) deadlines_.insert({request.deadline, id});
  const wire::RequestClass request_class = request.request_class;
  const auto at = lane.waiting.insert(lane.waiting.end(), std::move(waiting));
  const bool is_new =
      places_.insert({id, {.request_class = request_class, .key = key, .at = at}}).second;
  SLUICE_CHECK(is_new);
}

FairQueue::ClassQueue& FairQueue::NextClass(Time now) {
  ClassQueue* next = nullptr;
  for (ClassQueue& queue : classes_) {
    if (queue.waiting.empty()) continue;
    if (next == nullptr || (queue.due <= now && queue.due < next->due)) next = &queue;
  }
  SLUICE_CHECK(next != nullptr);
  return *next;
}

WaitingRequest FairQueue::Pop(Time now) {
  ClassQueue& queue = NextClass(now);
  queue.due = now + kClassPatience;
  const KeyId key = queue.waiting.begin()->second;
  Lane& lane = queue.lanes[key];
  const WaitingRequest& first = lane.waiting.front();
  const Place place = places_.at(first.request.id.value);

  queue.waiting.erase(queue.waiting.begin());
  queue.clock = lane.given;
  lane.given += CostOf(first.request);
  queue.waiting.insert({lane.given, key});
  WaitingRequest taken = Take(place);
  while (!queue.ahead.empty() && queue.ahead.begin()->first <= queue.clock) {
    queue.lanes.erase(queue.ahead.begin()->second);
    queue.ahead.erase(queue.ahead.begin());
  }
  return taken;
}

std::optional<WaitingRequest> FairQueue::Remove(RequestId id) {
  const auto found = places_.find(id.value);
  if (found == places_.end()) return std::nullopt;
  return Take(found->second);
}

std::optional<WaitingRequest> FairQueue::TakeLate(Time now) {
  if (next_deadline() > now || deadlines_.empty()) return std::nullopt;
  return Remove(RequestId(deadlines_.begin()->second));
}

std::optional<WaitingRequest> FairQueue::TakeAny() {
  if (places_.empty()) return std::nullopt;
  return Take(places_.begin()->second);
}

// By value: the place goes with the request.
WaitingRequest FairQueue::Take(Place place) {
  ClassQueue& queue = Of(place.request_class);
  const KeyId key = place.key;
  Lane& lane = queue.lanes.at(key);
  WaitingRequest taken = std::move(*place.at);
  lane.waiting.erase(place.at);
  places_.erase(taken.request.id.value);
  deadlines_.erase({taken.request.deadline, taken.request.id.value});

  const int64_t cost = CostOf(taken.request);
  lane.cost -= cost;
  queue.cost -= cost;
  Share& share = shares_.at(key);
  for (Share* sum : {&share, &total_}) {
    --sum->n_requests;
    sum->n_tokens -= taken.n_prompt();
  }
  if (share.n_requests == 0) shares_.erase(key);
  if (lane.waiting.empty()) {
    queue.waiting.erase({lane.given, key});
    queue.ahead.insert({lane.given, key});
  }
  return taken;
}

FairQueue::Share FairQueue::ShareOf(KeyId key) const {
  const auto found = shares_.find(key);
  return found == shares_.end() ? Share() : found->second;
}

int64_t FairQueue::CostBefore(const wire::GenerateRequest& request) const {
  int64_t before = 0;
  for (size_t i = 0; i < static_cast<size_t>(request.request_class); ++i)
    before += classes_[i].cost;
  const ClassQueue& queue = Of(request.request_class);
  const auto own = queue.lanes.find(request.key);
  const int64_t n_own = own == queue.lanes.end() ? 0 : own->second.cost;
  // While this key gets its own, each other gets as much, or all that it waits for.
  const int64_t n_turn = n_own + CostOf(request);
  for (const auto& [given, key] : queue.waiting) {
    if (key != request.key) before += std::min(queue.lanes.at(key).cost, n_turn);
  }
  return before + n_own;
}

}  // namespace sluice::cluster
