// ScriptedService: a TokenService that plays the script each request carries (spec
// script-format.md). It stands where an engine stands: the same life of a sequence, the same
// events, the same back-pressure, and every fault an engine can have, injected on demand.
//
// Submit, Cancel and Load may be called from any thread and never block. Everything else belongs to
// the owner, who calls Step when the time it answered has come and when the bell rings. Passive: it
// has no thread and no clock. Must outlive the consumers' use of the queues given to Submit.
//
// 1. The desk's: exactly one terminal event each, a full queue stops its own request only, bounded.
// 2. A Step is one round, like one step of an engine: every sequence that is due emits one event,
//    in the order in which they became due. So a Step is short, and cancels are never far away.
// 3. Log probabilities, of output and prompt, are made up from the token's id alone, or all the one
//    that the script gives.

#pragma once

#include <cstdint>

#include "base/bell.h"
#include "wire/request_desk.h"
#include "wire/token_service.h"

namespace sluice::wire {

class ScriptedService final : public TokenService {
 public:
  struct Params {
    int32_t max_running = 256;   // engine slots, >= 1
    int32_t max_waiting = 1024;  // requests that wait for one
    Bell bell;                   // rung by any thread when Step has something new to see
  };
  // Destroyed while no other thread calls in; ends what is left like CancelAll.
  explicit ScriptedService(const Params& params);

  // What the desk asks for; the script's n_per_event is at least 1.
  Status Submit(GenerateRequest request, EventQueue& out) override;
  Status Check(const GenerateRequest& request) const override;
  void Cancel(RequestId id) override { desk_.Cancel(id); }
  LoadReport Load() const override { return desk_.Load(); }

  // Does what is due. Returns when it wants to be called next; see RequestDesk::EndStep.
  Time Step(Time now);

  // See RequestDesk.
  void CancelAll() { desk_.CancelAll(); }
  bool idle() const { return desk_.idle(); }

 private:
  using Seat = RequestDesk::Seat;

  void Advance(Seat& seat, Time now);
  void Strike(Seat& seat);

  RequestDesk desk_;
};

}  // namespace sluice::wire
