// How a computed tensor is held against its golden (README of the golden folders, "Tolerance").

#pragma once

#include <cstdint>
#include <string>

#include "conformance/golden.h"

namespace sluice::conformance {

// What float32 may differ by. In exact arithmetic every class means: nothing.
enum class Tolerance : uint8_t {
  kBytes,       // A: rows of bytes, indices, ids: >= 99.9 % of rows identical
  kBf16,        // B: >= 99.5 % of values identical, relative RMS <= 5e-3
  kCoarse,      // F: >= 99 % of values identical, relative RMS <= 2e-2
  kSite,        // C at the attention site: relative RMS <= 1e-5
  kBehindSite,  // C behind it: relative RMS <= 3e-3
  kLogits,      // E: statistics of rows
  kDraftBytes,  // A*: >= 80 % of bytes identical
  kFreeBytes,   // A*: >= 50 % of bytes identical at the end of a free run
  kFreeTokens,  // >= 50 % of a few tokens equal
  kFreeValues,  // other ends of a free run: median relative RMS of the rows <= 0.16, of few rows
                // 0.32
};

struct Verdict {
  bool passed = false;
  std::string text;  // what was measured
};

Verdict CompareExact(const Tensor& golden, const Tensor& actual);
Verdict CompareFloat32(const Tensor& golden, const Tensor& actual, Tolerance tolerance);

}  // namespace sluice::conformance
