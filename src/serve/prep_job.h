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
#include "codec/inquiry.h"
#include "serve/net.h"

namespace sluice::serve {

// What becomes of a body: the request for tokens, or the answer of an inquiry.
struct PrepOutput {
  codec::Prepared prepared;
  codec::InquiryAnswer answer;
};

// Hop 2 on this thread. `inquiry` null: the request is prepared.
Result<PrepOutput> PrepareNow(const codec::Dialect& dialect,
                              const codec::Inquiry* inquiry,
                              std::string_view body,
                              const codec::PrepareContext& context);

class PrepJob : public Work {
 public:
  struct Params {
    const codec::Dialect& dialect;
    const codec::Inquiry* inquiry;  // null: none
    codec::PrepareContext context;
    std::string encoding;  // of the body; empty: none
    std::string body;
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
  Result<PrepOutput> TakeResult() { return std::move(*result_); }
  Duration spent() const { return spent_; }

 private:
  enum class State : uint8_t { kPending, kAbandoned, kFinishing, kDone };

  static void RunWork(Work& self);
  Result<PrepOutput> Prepare();
  bool is_abandoned() const { return state_.load(std::memory_order_acquire) == State::kAbandoned; }

  Net& net_;
  Params params_;
  std::optional<Result<PrepOutput>> result_;
  Duration spent_;
  std::atomic<State> state_{State::kPending};
};

}  // namespace sluice::serve
