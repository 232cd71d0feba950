// Clock: the only source of time (ARCHITECTURE.md §5.5). Thread-safe.

#pragma once

#include "base/time.h"

namespace sluice {

class Clock {
 public:
  virtual ~Clock() = default;

  virtual Time Now() const = 0;       // never goes back
  virtual WallTime Wall() const = 0;  // may jump; for expiry of stored objects and for logs only
};

}  // namespace sluice
