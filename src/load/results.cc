#include "load/results.h"

#include <algorithm>

namespace sluice::load {
namespace {

constexpr std::array<std::string_view, kNumEndKinds> kNames = {
    "done", "refused", "stopped", "connect", "cut", "error", "timeout", "malformed", "unsent"};

bool IsGood(const Outcome& outcome, const Results::Slo& slo) {
  if (slo.ttft.ns > 0 && outcome.first_output && *outcome.first_output - outcome.due > slo.ttft) {
    return false;
  }
  Duration sum;
  for (const Duration gap : outcome.gaps) sum = sum + gap;
  return slo.itl.ns == 0 || sum <= slo.itl * std::ssize(outcome.gaps);
}

}  // namespace

std::string_view NameOf(EndKind kind) { return kNames[static_cast<size_t>(kind)]; }

void Results::Add(const Outcome& outcome, const Slo& slo) {
  const auto kind = static_cast<size_t>(outcome.kind);
  if (outcome.sent.ns > 0) {
    ++n_sent;
    lateness.Record(outcome.sent - outcome.due);
  }
  ++n_ended[kind];
  if (example[kind].empty()) example[kind] = outcome.why;
  if (outcome.kind == EndKind::kRefused) ++n_refused[outcome.status];
  if (outcome.kind != EndKind::kDone) return;
  if (outcome.first_output) {
    ttft.Record(*outcome.first_output - outcome.due);
    n_output_events += 1 + std::ssize(outcome.gaps);
  }
  for (const Duration gap : outcome.gaps) itl.Record(gap);
  e2e.Record(outcome.ended - outcome.due);
  n_prompt += outcome.usage.n_prompt;
  n_cached += outcome.usage.n_cached;
  n_output += outcome.usage.n_output;
  n_good += IsGood(outcome, slo);
}

int64_t Results::n_failed() const {
  int64_t n = 0;
  for (size_t i = static_cast<size_t>(kFirstFailure); i < kNumEndKinds; ++i) n += n_ended[i];
  return n;
}

}  // namespace sluice::load
