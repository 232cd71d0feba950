// ComputeOptions: how a model is computed; declared by every command that runs one. Plain data.

#pragma once

#include <cstdint>

#include "base/options.h"
#include "tensor/stream.h"

namespace sluice::app {

struct ComputeOptions {
  int32_t n_threads = 0;  // 0: one per core
  Arithmetic arithmetic = Arithmetic::kFloat32;

  void Declare(OptionSet& set, OptionReach reach);

  int32_t NumThreads() const;
};

}  // namespace sluice::app
