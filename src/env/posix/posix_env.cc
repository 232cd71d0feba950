#include "env/posix/posix_env.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

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

struct OpenFile {
  explicit OpenFile(int f) : fd(f) {}
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  const int fd;
};

Status FailedToRead(std::string_view path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::kNotFound, fmt::format("{}: no such file", path)};
    case EACCES:
    case EPERM:
      return {ErrorCode::kPermissionDenied, fmt::format("{}: no permission to read it", path)};
    case EISDIR:
      return Status::Invalid(fmt::format("{}: is a directory, not a file", path));
    default:
      return {ErrorCode::kInternal, fmt::format("{}: cannot be read (error {})", path, error)};
  }
}

class PosixFileSystem : public FileSystem {
 public:
  Result<std::string> ReadWhole(std::string_view path, int64_t max_bytes) override {
    OpenFile file(open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0) return FailedToRead(path, errno);
    std::string text;
    // Pipes have no size, and files may grow: read until the end or one byte too many.
    while (static_cast<int64_t>(text.size()) <= max_bytes) {
      constexpr int64_t kChunkBytes = 256 << 10;
      const size_t n_before = text.size();
      const int64_t n_left = max_bytes + 1 - static_cast<int64_t>(n_before);
      text.resize(n_before + static_cast<size_t>(std::min(kChunkBytes, n_left)));
      ssize_t n = read(file.fd, text.data() + n_before, text.size() - n_before);
      const int error = errno;
      text.resize(n_before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
      if (n == 0) return text;
      if (n < 0 && error != EINTR) return FailedToRead(path, error);
    }
    return Status(ErrorCode::kTooLarge, fmt::format("{}: larger than {} bytes", path, max_bytes));
  }

  Result<WallTime> ModifiedAt(std::string_view path) override {
    struct stat info;
    if (stat(std::string(path).c_str(), &info) != 0) return FailedToRead(path, errno);
    return WallTime{int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
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
