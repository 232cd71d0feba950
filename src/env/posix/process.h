// Other programs. Call from any thread; blocks until the program has ended.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace sluice {

// Runs args[0], looked up in PATH, with these arguments and no shell between. It has our
// environment, nothing to read, and writes to our stderr. Its exit status, or 128 and the number
// of the signal that ended it. kNotFound: there is no such program. kInternal: it cannot be
// started.
Result<int32_t> RunProgram(std::span<const std::string> args);

}  // namespace sluice
