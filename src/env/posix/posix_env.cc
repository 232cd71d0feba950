#include "env/posix/posix_env.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "base/check.h"
#include "env/posix/posix_files_impl.h"

namespace sluice {
namespace {

int64_t ReadClock(clockid_t id) {
  timespec t;
  SLUICE_CHECK(clock_gettime(id, &t) == 0);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class PosixClock : public Clock {
 public:
  Time Now() const override { return {ReadClock(CLOCK_MONOTONIC)}; }
  WallTime Wall() const override { return {ReadClock(CLOCK_REALTIME)}; }
};

class PosixEntropy : public Entropy {
 public:
  void Fill(MutableBytes out) override {
    while (!out.empty()) {
      ssize_t n = getrandom(out.data(), out.size(), 0);
      SLUICE_CHECK(n > 0 || errno == EINTR);
      if (n > 0) out = out.subspan(static_cast<size_t>(n));
    }
  }
};

}  // namespace

struct PosixEnv::Parts {
  PosixClock clock;
  PosixFileSystem fs;
  PosixEntropy entropy;
  Env env{.clock = clock, .fs = fs, .entropy = entropy};
};

PosixEnv::PosixEnv() : parts_(std::make_unique<Parts>()) {}
PosixEnv::~PosixEnv() = default;
const Env& PosixEnv::env() const { return parts_->env; }

}  // namespace sluice
