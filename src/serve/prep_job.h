// PrepJob: hop 2 of one request on a prep thread. The net thread waits for it or lets it go (a
// client that left, a deadline, the end); a job that nobody waits for is not worked on.
//
// Shared by two threads through `state_`; whoever lets go last destroys it.

#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/ready_list.h"
#include "base/work_pool.h"
#include "codec/dialect.h"
#include "serve/net.h"

namespace sluice::serve {

class PrepJob : public Work {
 public:
  struct Params {
    const codec::Dialect& dialect;
    std::string encoding;  // of the body; empty: none
    std::string body;
    KeyId key;                // whose request it is
    int64_t n_charged_bytes;  // of the body, as net.buffered_bytes counts it
    ReadyList::Node& waiter;  // listed in net.ready when the job is done
  };
  // `net` outlives the pool's threads.
  PrepJob(Net& net, Params params);

  // Net thread, until done() or a successful Abandon().
  bool done() const { return state_.load(std::memory_order_acquire) == State::kDone; }
  // A few instructions before done(): the waiter may have been listed for it already and woken too
  // early; it lists itself again.
  bool is_finishing() const { return state_.load(std::memory_order_acquire) == State::kFinishing; }
  // Nobody waits any more; the prep thread destroys the job, whose bytes count as
  // net.abandoned_bytes until then. False: it is finishing or done.
  [[nodiscard]] bool Abandon();

  // Once done().
  Result<codec::Prepared> TakeResult() { return std::move(*result_); }
  Duration spent() const { return spent_; }

 private:
  enum class State : uint8_t { kPending, kAbandoned, kFinishing, kDone };

  static void RunWork(Work& self);
  Result<codec::Prepared> Prepare();
  bool is_abandoned() const { return state_.load(std::memory_order_acquire) == State::kAbandoned; }

  Net& net_;
  Params params_;
  std::optional<Result<codec::Prepared>> result_;
  Duration spent_;
  std::atomic<State> state_{State::kPending};
};

}  // namespace sluice::serve
