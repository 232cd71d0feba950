// FlushDenormals: while it lives, the float32 arithmetic of its thread takes denormal inputs for 0
// and gives 0 for denormal results (DAZ and FTZ), as the bf16 dot instructions do that the exact
// variants must equal (spec cpu-kernels.md §3.0, rule 4). In Arithmetic::kExact it does nothing.
//
// MXCSR belongs to a thread: make one inside the function a ThreadTeam runs, never around the call.

#pragma once

#include <xmmintrin.h>

#include <cstdint>

#include "tensor/stream.h"

namespace sluice::simd {

class FlushDenormals {
 public:
  explicit FlushDenormals(Arithmetic arithmetic) : before_(_mm_getcsr()) {
    constexpr uint32_t kFlushToZero = 0x8000;
    constexpr uint32_t kDenormalsAreZero = 0x0040;
    if (arithmetic == Arithmetic::kFloat32) Set(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() { Set(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  // Compilers do not know that float operations depend on MXCSR. The empty statements keep them
  // from carrying loads and stores, and so the arithmetic between those, across the change.
  static void Set(uint32_t state) {
    asm volatile("" ::: "memory");
    _mm_setcsr(state);
    asm volatile("" ::: "memory");
  }

  const uint32_t before_;
};

}  // namespace sluice::simd
