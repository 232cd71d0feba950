// Trials of the machine, for `sluice doctor`: each does what a server would do, for a moment, and
// says how it went. Any thread; they block, for up to some seconds.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace sluice {

struct ReadTrial {
  int64_t n_bytes = 0;
  Duration spent;
  bool is_direct = false;  // past the page cache; else it may have been memory that was read

  double bytes_per_s() const {
    return spent.ns > 0 ? static_cast<double>(n_bytes) / spent.seconds() : 0;
  }
};

struct ReadTrialLimits {
  int64_t n_bytes;  // multiple of 4 MiB
  Duration time;    // then it ends where it is
};

// Reads a file from its beginning.
Result<ReadTrial> TryReading(std::string_view path, const ReadTrialLimits& limits);

// Writes a file without a name into the folder, reads it back, and leaves nothing. Not counting the
// writing.
Result<ReadTrial> TryFolder(std::string_view folder, const ReadTrialLimits& limits);

// Listens on a port of an IP address for a moment; 0 is always free. kInvalidArgument with the
// system's words where that is not possible.
Status TryListening(std::string_view address, int32_t port);

// Whether the system keeps its wall clock by a reference; absent where it does not say.
std::optional<bool> ClockIsSynchronised();

}  // namespace sluice
