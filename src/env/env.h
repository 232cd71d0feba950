// Env: the outside world, as a value that is passed down and never global (ARCHITECTURE.md §5.5).
// The parts outlive everything that holds an Env.

#pragma once

#include "env/clock.h"
#include "env/entropy.h"
#include "env/file_system.h"

namespace sluice {

struct Env {
  Clock& clock;
  FileSystem& fs;
  Entropy& entropy;
};

}  // namespace sluice
