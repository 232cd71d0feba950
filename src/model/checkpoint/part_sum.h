// What a part of a model adds up to. Plain value.

#pragma once

#include <cstdint>

namespace sluice::model {

struct PartSum {
  int64_t n_parameters = 0;
  int64_t n_bytes = 0;
  int64_t n_tensors = 0;

  PartSum& operator+=(const PartSum& other) {
    n_parameters += other.n_parameters;
    n_bytes += other.n_bytes;
    n_tensors += other.n_tensors;
    return *this;
  }
  friend bool operator==(const PartSum&, const PartSum&) = default;
};

}  // namespace sluice::model
