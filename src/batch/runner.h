// Runner: the rows of a batch on their way through a token service, many at once, each answer
// appended to the output as soon as it is whole. What `serve::Generation` is for one client,
// without the client.
//
// Owned by one thread, which calls Step when the time it answered has come and when `ready`'s bell
// rings. Passive: it sleeps nowhere and tells no time but `created` of an answer.
//
// 1. A row that is not done gets exactly one line, whatever happens to it; a line is appended
// whole,
//    in order of completion.
// 2. An answer depends on its row, the model and the options alone: ids and seeds are made from the
//    row. Only `created` and what was found in a prefix cache are of the run.
// 3. Memory is bounded: rows in flight have a limit in number and in bytes, and one may exceed the
//    latter only while it is alone.
// 4. What a killed process has appended stays; after a failure of the machine at most the lines of
//    the last kSyncPeriod are missing, and their rows run again.

#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ready_list.h"
#include "base/status.h"
#include "base/time.h"
#include "batch/index.h"
#include "batch/progress.h"
#include "codec/dialect.h"
#include "env/clock.h"
#include "env/file_system.h"
#include "wire/token_service.h"

namespace sluice::batch {

inline constexpr Duration kSyncPeriod = Duration::Seconds(5);

class Runner {
 public:
  // All outlive the runner; `ready` and what it rings outlive the service's last push, too.
  struct Params {
    const Index& index;
    wire::TokenService& service;
    codec::PrepareContext context;
    const Clock& clock;
    AppendFile& out;
    ReadyList& ready;
    int32_t n_requests_max = 1;  // that the service holds at once: a row with n choices is n
    int64_t n_body_bytes_max = 0;
    Duration request_timeout;  // of a row that was submitted
    std::string fingerprint;   // system_fingerprint
  };
  explicit Runner(const Params& params);
  // Once done().
  ~Runner();
  Runner(const Runner&) = delete;

  // Takes what the service has sent, writes what is whole, starts what there is room for. Returns
  // when it wants to be called next.
  Time Step(Time now);

  // All rows have their lines and these are on the disk; or the output cannot be written, and
  // nothing is in flight any more.
  bool done() const;
  const Status& failure() const { return failure_; }
  const Totals& totals() const { return totals_; }

 private:
  struct Run;  // one row in flight
  struct Retry {
    uint32_t line_idx;
    int32_t n_tries;
    Time due;
  };

  // No row is left to start, none in flight.
  bool is_over() const;
  void TakeNews();
  bool StartSome(Time now);
  std::optional<Retry> PickRow(Time now);
  std::unique_ptr<Run> Prepare(const Retry& row);
  bool HasRoom(const Run& run) const;
  void Submit(std::unique_ptr<Run> run, Time now);
  void Advance(Run& run, Time now);
  Status Drain(Run& run);
  void Finish(Run& run, Time now);
  void WriteError(const Run& run);
  void Append(const std::string& line, bool is_failed);
  void SyncIfDue(Time now);
  Time NextDue() const;
  void Fail(Status status);

  // Constant after construction.
  const Params params_;

  // Owned by the owner's thread.
  size_t next_idx_ = 0;        // in the index's order
  std::deque<Retry> retries_;  // refused because the service was full
  std::unique_ptr<Run> next_;  // prepared, waits for room
  std::list<std::unique_ptr<Run>> running_;
  std::list<std::unique_ptr<Run>> ended_;  // may still be listed in `ready`
  std::vector<Run*> news_;                 // scratch of TakeNews
  int32_t n_requests_ = 0;
  int64_t n_held_bytes_ = 0;
  uint64_t n_submitted_ = 0;  // ever; the source of RequestId
  bool is_dirty_ = false;     // something was appended since the last sync
  Time next_sync_;
  Totals totals_;
  Status failure_;
};

}  // namespace sluice::batch
