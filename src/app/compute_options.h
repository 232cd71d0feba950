// ComputeOptions: how a model is computed; declared by every command that runs one. Plain data.

#pragma once

#include <cstdint>
#include <string>

#include "base/options.h"
#include "base/result.h"
#include "tensor/isa.h"
#include "tensor/stream.h"

namespace sluice::app {

struct ComputeOptions {
  int32_t n_threads = 0;  // 0: one per core
  Arithmetic arithmetic = Arithmetic::kFloat32;
  std::string variant;  // of kernels; empty: the best

  void Declare(OptionSet& set, OptionReach reach);

  int32_t NumThreads() const;
  // For commands that read no other variable: SLUICE_VARIANT, unless a flag said it.
  void ReadVariant(const Environment& environment);
  // kInvalidArgument: of `variant`.
  Result<IsaChoice> Isas() const;
};

}  // namespace sluice::app
