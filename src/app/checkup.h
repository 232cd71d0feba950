// CheckUp: whether this machine can serve, and serve well: one line a matter. Every check that does
// not pass says what would help. Blocks for a few seconds; any thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/app_options.h"
#include "env/env.h"

namespace sluice::app {

enum class Verdict : uint8_t { kPass, kWarn, kFail };
std::string_view NameOf(Verdict verdict);

struct Check {
  std::string_view name;
  Verdict verdict = Verdict::kPass;
  std::string finding;
  std::string remedy;  // one sentence; empty where the check passed
};

// With options.model, a folder or a file, also whether that fits, and how fast its disk is;
// without, the disk of the working folder. The ports are those of the options.
std::vector<Check> CheckUp(const Env& env, const AppOptions& options);

}  // namespace sluice::app
