// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3", 2011). Pure functions; thread-safe.
//
// A number is a function of its key alone. It does not matter which were drawn before, by whom or
// on which thread, so what a sequence samples depends neither on its batch nor on a restart.

#pragma once

#include <cstdint>

namespace sluice {

struct RngKey {
  uint64_t seed = 0;      // of the request
  uint64_t position = 0;  // of the token
  uint64_t stream = 0;    // purpose: different uses at one position never share a number
};

// 64 uniform bits; different keys give independent ones.
uint64_t RandomBits(const RngKey& key);

// Uniform in the open interval (0, 1): its logarithm and that of 1 - x are finite. A multiple of
// 2^-53.
double RandomUniform(const RngKey& key);

}  // namespace sluice
