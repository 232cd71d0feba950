#include "app/load_line.h"

#include <fmt/format.h>

#include "app/command.h"

namespace sluice::app {
namespace {

// How often the line is renewed.
constexpr Duration kPeriod = Duration::Millis(200);

}  // namespace

std::string LoadText(const wire::LoadProgress& loading) {
  const std::optional<Duration> left = loading.left();
  return fmt::format("reading weights: {:3.0f} %, {:.2f} GB/s, {} left, {}", loading.percent(),
                     loading.bytes_per_s() / 1e9,
                     left ? fmt::format("{:.0f} s", left->seconds()) : "unknown time",
                     loading.file);
}

void LoadLine::Show(const wire::LoadProgress& loading) {
  if (loading.elapsed - shown_at_ < kPeriod) return;
  shown_at_ = loading.elapsed;
  is_shown_ = true;
  Complain(fmt::format("\r{:<78}", LoadText(loading)));
}

void LoadLine::Clear() {
  if (is_shown_) Complain(fmt::format("\r{:<78}\r", ""));
  is_shown_ = false;
}

}  // namespace sluice::app
