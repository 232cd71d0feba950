// Router: the place where requests wait, in front of whoever serves them. There is one queue and
// one policy, also before a single engine: whose turn it is says FairQueue, who may wait Admission.
// It hands a request on only when the target has a place for it, because in the queue of the target
// no class and no key counts any more.
//
// Submit, Cancel, Check and Load may be called from any thread and never wait for work: a mutex is
// held while one request enters or leaves, which needs the whole queue. Step belongs to the owner
// of the target, who calls it behind each step of the target and when it said; then a place that
// became free is taken before the next step. Passive: no thread. Must outlive the consumers' use of
// the queues given to Submit.
//
// 1. Each accepted request ends in exactly one terminal event. As long as it waits it is the
//    router's to send it: on Cancel, at the deadline, on CancelAll. Then it is the target's.
// 2. A request for which there is a place and none waits goes to the target in Submit.
// 3. What waits is bounded in requests and in tokens.

#pragma once

#include <cstdint>

#include "base/bell.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "cluster/admission.h"
#include "cluster/fair_queue.h"
#include "env/clock.h"
#include "wire/token_service.h"

namespace sluice::cluster {

class Router final : public wire::TokenService {
 public:
  struct Params {
    Admission::Params queue;
    Bell bell;  // rung by any thread when Step is to be called earlier than it said
  };
  // `target` and `clock` outlive the router.
  Router(const Params& params, const Clock& clock, wire::TokenService& target);
  // While no other thread calls in. Ends what waits like CancelAll.
  ~Router() override;

  // hop 3. What Check says, what Admission says, or what the target answers.
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override;
  Status Check(const wire::GenerateRequest& request) const override {
    return target_.Check(request);
  }
  void Cancel(RequestId id) override;
  // The target's, with what waits here.
  wire::LoadReport Load() const override;

  // Ends what is late and hands on what there are places for. Returns when it wants to be called
  // next, at the latest; earlier whenever a place becomes free.
  Time Step(Time now);

  // Ends every request that waits with kOverloaded and refuses new ones, for good.
  void CancelAll();

 private:
  bool HasPlace() const;
  WaitingRequest TakeNext(Time now) SLUICE_REQUIRES(mu_);
  static void End(WaitingRequest waiting, Status status);

  // Constant after construction.
  const Bell bell_;
  const Clock& clock_;
  wire::TokenService& target_;

  mutable Mutex mu_;
  FairQueue queue_ SLUICE_GUARDED_BY(mu_);
  Admission admission_ SLUICE_GUARDED_BY(mu_);
  bool is_closed_ SLUICE_GUARDED_BY(mu_) = false;
};

}  // namespace sluice::cluster
