// Entropy: random bytes that nobody can predict. For ids and keys; sampling has its own generator.
// Thread-safe.

#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace sluice {

class Entropy {
 public:
  virtual ~Entropy() = default;

  virtual void Fill(MutableBytes out) = 0;

  uint64_t Next() {
    uint64_t value = 0;
    Fill(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

}  // namespace sluice
