#include "batch/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"

namespace sluice::batch {
namespace {

constexpr int32_t kBarColumns = 24;

// At the rate so far; rows differ, so it is a guess.
std::string LeftText(const Progress& p) {
  const int64_t n_left = p.n_rows - p.n_done;
  if (n_left == 0) return "none left";
  if (p.n_new == 0 || p.elapsed.ns <= 0) return "unknown time left";
  const double left_s =
      p.elapsed.seconds() / static_cast<double>(p.n_new) * static_cast<double>(n_left);
  constexpr double kLongest_s = 1e9;
  return DurationText(Duration::Seconds(static_cast<int64_t>(std::min(left_s, kLongest_s)))) +
         " left";
}

}  // namespace

std::string DurationText(Duration duration) {
  const int64_t s = duration.ns / 1'000'000'000;
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86'400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86'400, s / 3600 % 24);
}

std::string ProgressText(const Progress& p) {
  const int64_t percent = p.n_rows > 0 ? p.n_done * 100 / p.n_rows : 100;
  const double rate = p.elapsed.ns > 0 ? static_cast<double>(p.n_tokens) / p.elapsed.seconds() : 0;
  const std::string failed = p.n_failed > 0 ? fmt::format("{} with errors, ", p.n_failed) : "";
  return fmt::format("{}/{} rows ({} %), {}{:.0f} tokens/s, {}", p.n_done, p.n_rows, percent,
                     failed, rate, LeftText(p));
}

std::string ProgressBar(const Progress& p, int32_t n_columns) {
  const int64_t n_filled = p.n_rows > 0 ? p.n_done * kBarColumns / p.n_rows : kBarColumns;
  std::string text = fmt::format("[{:{}}] {}", std::string(static_cast<size_t>(n_filled), '#'),
                                 kBarColumns, ProgressText(p));
  text.resize(static_cast<size_t>(n_columns), ' ');
  return text;
}

std::string EndText(const Progress& end, const Totals& totals) {
  const int64_t n_before = end.n_done - end.n_new;
  const std::string before =
      n_before > 0 ? fmt::format("; {} of all were there before", n_before) : "";
  return fmt::format(
      "{} rows: {} answered, {} with errors{}\n"
      "{} tokens in ({} of them cached), {} out, in {}\n",
      end.n_rows, end.n_done - end.n_failed, end.n_failed, before, totals.n_prompt, totals.n_cached,
      totals.n_completion, DurationText(end.elapsed));
}

std::string EndJson(const Progress& end, const Totals& totals) {
  std::string text;
  JsonWriter w(text);
  w.Object().Key("rows").Int(end.n_rows).Key("done").Int(end.n_done);
  w.Key("failed").Int(end.n_failed).Key("done_before").Int(end.n_done - end.n_new);
  w.Key("prompt_tokens").Int(totals.n_prompt).Key("cached_tokens").Int(totals.n_cached);
  w.Key("completion_tokens").Int(totals.n_completion);
  w.Key("seconds").Double(end.elapsed.seconds()).EndObject();
  return text + "\n";
}

}  // namespace sluice::batch
