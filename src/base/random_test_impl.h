// Random numbers for tests: another seed in each run, which is printed and can be given again with
// --gtest_random_seed. Thread-compatible.

#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/rng.h"

namespace sluice {

class Random {
 public:
  Random() : seed_(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed())) {
    std::printf("seed %d (--gtest_random_seed)\n", static_cast<int>(seed_));
  }
  // [0, n)
  size_t Below(size_t n) {
    return static_cast<size_t>(RandomBits({.seed = seed_, .position = position_++}) % n);
  }

 private:
  const uint64_t seed_;
  uint64_t position_ = 0;
};

}  // namespace sluice
