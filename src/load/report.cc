#include "load/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"

namespace sluice::load {
namespace {

double Per(double value, double by) { return by > 0 ? value / by : 0; }
double PerSecond(int64_t n, const Results& results) {
  return Per(static_cast<double>(n), results.elapsed.seconds());
}
double Share(int64_t n, int64_t of) { return Per(static_cast<double>(n), static_cast<double>(of)); }

bool HasSlo(const LoadOptions& options) {
  return options.slo_ttft.ns > 0 || options.slo_itl.ns > 0;
}

// Everything that should have been answered well.
int64_t NumWanted(const Results& results) {
  return results.n_sent + results.n_dropped -
         results.n_ended[static_cast<size_t>(EndKind::kStopped)];
}

std::string Row(std::string_view name, const Histogram& h) {
  return fmt::format("{:<22}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name,
                     h.mean().millis(), h.Quantile(0.5).millis(), h.Quantile(0.9).millis(),
                     h.Quantile(0.99).millis(), h.max().millis());
}

std::string CountLines(const LoadOptions& options, const Results& results) {
  std::string out = fmt::format("{:.1f} s, {} sent, {} done", results.elapsed.seconds(),
                                results.n_sent, results.n_done());
  for (const auto& [status, n] : results.n_refused) {
    out += fmt::format(", {} refused with {}", n, status);
  }
  if (results.n_failed() > 0) out += fmt::format(", {} failed", results.n_failed());
  const int64_t n_stopped = results.n_ended[static_cast<size_t>(EndKind::kStopped)];
  if (n_stopped > 0) out += fmt::format(", {} given up when this was stopped", n_stopped);
  out += '\n';
  for (size_t i = static_cast<size_t>(kFirstFailure); i < kNumEndKinds; ++i) {
    if (results.n_ended[i] == 0) continue;
    out += fmt::format("  {} {}: {}\n", results.n_ended[i], NameOf(static_cast<EndKind>(i)),
                       results.example[i]);
  }
  if (results.n_turns_left > 0) {
    out += fmt::format("{} turns were not sent, since the one before was not answered\n",
                       results.n_turns_left);
  }
  if (options.rate > 0) {
    out += fmt::format("backlog: at most {} waited to be sent, the longest for {:.2f} s\n",
                       results.n_waiting_max, results.lateness.max().seconds());
  }
  if (results.n_unstarted > 0) {
    out += fmt::format("{} were due and not sent when this was stopped\n", results.n_unstarted);
  }
  if (results.n_dropped > 0) {
    out += fmt::format(
        "{} were due and never sent, since the backlog of {} was full: the latencies below are too "
        "low\n",
        results.n_dropped, options.max_backlog);
  }
  return out;
}

void WriteHistogram(std::string_view name, const Histogram& h, JsonWriter& w) {
  w.Key(name).Object().Key("count").Int(h.count());
  w.Key("mean").Double(h.mean().millis());
  w.Key("p50").Double(h.Quantile(0.5).millis());
  w.Key("p90").Double(h.Quantile(0.9).millis());
  w.Key("p99").Double(h.Quantile(0.99).millis());
  w.Key("max").Double(h.max().millis()).EndObject();
}

void WriteCounts(const Results& results, JsonWriter& w) {
  w.Key("sent").Int(results.n_sent);
  w.Key("done").Int(results.n_done());
  w.Key("refused").Object();
  for (const auto& [status, n] : results.n_refused) w.Key(fmt::format("{}", status)).Int(n);
  w.EndObject();
  w.Key("failed").Object();
  for (size_t i = static_cast<size_t>(kFirstFailure); i < kNumEndKinds; ++i) {
    if (results.n_ended[i] > 0) w.Key(NameOf(static_cast<EndKind>(i))).Int(results.n_ended[i]);
  }
  w.EndObject();
  w.Key("given_up").Int(results.n_ended[static_cast<size_t>(EndKind::kStopped)]);
  w.Key("turns_not_sent").Int(results.n_turns_left);
  w.Key("reconnects").Int(results.n_reconnected);
  w.Key("dropped").Int(results.n_dropped);
  w.Key("unstarted").Int(results.n_unstarted);
  w.Key("backlog_max").Int(results.n_waiting_max);
}

}  // namespace

std::string TextReport(const LoadOptions& options, const Results& results) {
  std::string out = CountLines(options, results);
  out += fmt::format("\n{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "mean", "p50",
                     "p90", "p99", "max");
  out += Row("time to first token", results.ttft);
  out += Row("between events", results.itl);
  out += Row("whole answer", results.e2e);
  if (options.rate > 0) out += Row("late to be sent", results.lateness);
  out += fmt::format(
      "\n{:.2f} requests/s, {:.1f} output tokens/s, {:.1f} prompt tokens/s, {:.1f} % of them "
      "cached\n"
      "{:.1f} prompt and {:.1f} output tokens per request, {:.2f} tokens per event\n",
      PerSecond(results.n_done(), results), PerSecond(results.n_output, results),
      PerSecond(results.n_prompt, results), 100 * Share(results.n_cached, results.n_prompt),
      Share(results.n_prompt, results.n_done()), Share(results.n_output, results.n_done()),
      Share(results.n_output, results.n_output_events));
  if (HasSlo(options)) {
    out += fmt::format("goodput: {:.2f} requests/s, {:.1f} % of all\n",
                       PerSecond(results.n_good, results),
                       100 * Share(results.n_good, NumWanted(results)));
  }
  if (results.n_failed() > 0) {
    out += fmt::format("{} answers were not right\n", results.n_failed());
  } else if (results.n_done() == 0) {
    out += "nothing was answered\n";
  }
  return out;
}

std::string JsonReport(const LoadOptions& options, const Results& results) {
  std::string out;
  JsonWriter w(out);
  w.Object().Key("elapsed_s").Double(results.elapsed.seconds());
  w.Key("stopped").Bool(results.was_stopped);
  WriteCounts(results, w);
  w.Key("not_right").Int(results.n_failed());
  WriteHistogram("ttft_ms", results.ttft, w);
  WriteHistogram("itl_ms", results.itl, w);
  WriteHistogram("e2e_ms", results.e2e, w);
  WriteHistogram("lateness_ms", results.lateness, w);
  w.Key("output_events").Int(results.n_output_events);
  w.Key("prompt_tokens").Int(results.n_prompt);
  w.Key("cached_tokens").Int(results.n_cached);
  w.Key("output_tokens").Int(results.n_output);
  w.Key("requests_per_s").Double(PerSecond(results.n_done(), results));
  w.Key("prompt_tokens_per_s").Double(PerSecond(results.n_prompt, results));
  w.Key("output_tokens_per_s").Double(PerSecond(results.n_output, results));
  w.Key("cached_share").Double(Share(results.n_cached, results.n_prompt));
  if (HasSlo(options)) {
    w.Key("good").Int(results.n_good);
    w.Key("good_per_s").Double(PerSecond(results.n_good, results));
    w.Key("good_share").Double(Share(results.n_good, NumWanted(results)));
  }
  w.EndObject();
  return out;
}

std::string ProgressText(const Progress& p) {
  return fmt::format("{:.1f} s: {} sent, {} done, {} refused, {} failed, {} in flight, {} waiting",
                     p.elapsed.seconds(), p.n_sent, p.n_done, p.n_refused, p.n_failed,
                     p.n_in_flight, p.n_waiting);
}

}  // namespace sluice::load
