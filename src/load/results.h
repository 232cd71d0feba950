// Results: what was measured. Plain data, filled by the thread that drives the load.

#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/answer_reader.h"
#include "load/histogram.h"

namespace sluice::load {

enum class EndKind : uint8_t {
  kDone,
  kRefused,  // a status other than 200
  kStopped,  // by whoever ran this, before it ended
  // Failures: answers that are not right.
  kConnect,  // no connection
  kCut,      // the connection ended before the answer did
  kError,    // the server said in the stream that it failed
  kTimeout,
  kMalformed,  // not HTTP, not an event stream, or not what the API promises
  kUnsent,     // the request would exceed a limit of ours
};
inline constexpr size_t kNumEndKinds = 9;
inline constexpr EndKind kFirstFailure = EndKind::kConnect;
std::string_view NameOf(EndKind kind);

// How one request went.
struct Outcome {
  EndKind kind = EndKind::kDone;
  int status = 0;   // of kRefused
  std::string why;  // of a failure
  Time due;
  Time sent;
  Time ended;
  std::optional<Time> first_output;
  std::vector<Duration> gaps;  // between events with output
  AnswerUsage usage;
};

struct Results {
  int64_t n_sent = 0;
  std::array<int64_t, kNumEndKinds> n_ended{};
  std::array<std::string, kNumEndKinds> example;  // why the first one of a kind failed
  std::map<int, int64_t> n_refused;               // by status
  int64_t n_turns_left = 0;                       // of conversations that were given up
  int64_t n_reconnected = 0;                      // the server had closed an idle connection

  // Open loop.
  int64_t n_dropped = 0;      // due, but the backlog was full
  int64_t n_unstarted = 0;    // due, but stopped before
  int64_t n_waiting_max = 0;  // the longest backlog
  Histogram lateness;         // from due to sent

  // Of answers that are done; times count from when the request was due.
  Histogram ttft;
  Histogram itl;
  Histogram e2e;
  int64_t n_output_events = 0;
  int64_t n_prompt = 0;  // tokens
  int64_t n_cached = 0;
  int64_t n_output = 0;
  int64_t n_good = 0;  // within the SLOs

  Duration elapsed;
  bool was_stopped = false;

  struct Slo {
    Duration ttft;  // zero: any
    Duration itl;
  };
  void Add(const Outcome& outcome, const Slo& slo);

  int64_t n_done() const { return n_ended[static_cast<size_t>(EndKind::kDone)]; }
  int64_t n_failed() const;
  // What the exit code says: there is a measurement, and every answer was right.
  bool are_right() const { return n_done() > 0 && n_failed() == 0 && n_dropped == 0; }
};

}  // namespace sluice::load
