#include "app/batch_meter.h"

#include <fmt/format.h>

#include "app/command.h"
#include "env/posix/terminal.h"

namespace sluice::app {
namespace {

constexpr int32_t kColumns = 100;
constexpr Duration kBarPeriod = Duration::Millis(200);
constexpr Duration kLinePeriod = Duration::Seconds(10);

}  // namespace

BatchMeter::BatchMeter(bool is_quiet) : is_quiet_(is_quiet), is_terminal_(StderrIsTerminal()) {}

void BatchMeter::Show(Time now, const batch::Progress& progress) {
  if (is_quiet_ || now < due_) return;
  due_ = now + (is_terminal_ ? kBarPeriod : kLinePeriod);
  if (is_terminal_) return Write(batch::ProgressBar(progress, kColumns));
  Complain("sluice batch: " + batch::ProgressText(progress) + "\n");
}

void BatchMeter::ShowReading(Time now, int64_t n_read_bytes, int64_t n_bytes) {
  if (is_quiet_ || !is_terminal_ || now < due_ || n_bytes == 0) return;
  due_ = now + kBarPeriod;
  Write(fmt::format("{:<{}}", fmt::format("sorting the rows: {} %", n_read_bytes * 100 / n_bytes),
                    kColumns));
}

void BatchMeter::Clear() {
  if (is_shown_) Complain(fmt::format("\r{:{}}\r", "", kColumns));
  is_shown_ = false;
  due_ = {};
}

void BatchMeter::Write(const std::string& line) {
  is_shown_ = true;
  Complain("\r" + line);
}

}  // namespace sluice::app
