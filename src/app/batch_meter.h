// BatchMeter: says on stderr how far a batch is: a bar that is written over on a terminal, a line
// now and then elsewhere. Owned by one thread.

#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "batch/progress.h"

namespace sluice::app {

class BatchMeter {
 public:
  // `is_quiet`: it says nothing.
  explicit BatchMeter(bool is_quiet);

  // Neither does anything before due().
  void Show(Time now, const batch::Progress& progress);
  // While the input is read, on a terminal only.
  void ShowReading(Time now, int64_t n_read_bytes, int64_t n_bytes);
  // Takes the bar away.
  void Clear();

  // When it wants to be called again.
  Time due() const { return is_quiet_ ? Time::Max() : due_; }

 private:
  void Write(const std::string& line);

  const bool is_quiet_;
  const bool is_terminal_;
  bool is_shown_ = false;
  Time due_;
};

}  // namespace sluice::app
