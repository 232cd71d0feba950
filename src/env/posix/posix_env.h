// PosixEnv: the real clock, files and random numbers. Thread-safe.

#pragma once

#include <memory>

#include "env/env.h"

namespace sluice {

class PosixEnv {
 public:
  PosixEnv();
  ~PosixEnv();
  PosixEnv(const PosixEnv&) = delete;

  const Env& env() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice
