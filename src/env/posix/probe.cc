#include "env/posix/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "base/bytes.h"

namespace sluice {
namespace {

constexpr int64_t kPieceBytes = 4 * kMiB;

struct OpenFile {
  explicit OpenFile(int f) : fd(f) {}
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(const OpenFile&) = delete;
  const int fd;
};

// Memory that begins with a page, as reading past the cache demands.
struct Pages {
  Pages()
      : at(mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
  }
  ~Pages() {
    if (at != MAP_FAILED) munmap(at, kPieceBytes);
  }
  Pages(const Pages&) = delete;
  void* const at;
};

Status Failed(std::string_view what, std::string_view path) {
  return {ErrorCode::kInternal,
          fmt::format("{} cannot be {}: {}", path, what, std::generic_category().message(errno))};
}

Time Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
}

Result<ReadTrial> ReadAll(const OpenFile& file,
                          std::string_view path,
                          const ReadTrialLimits& limits) {
  const Pages pages;
  if (pages.at == MAP_FAILED) return Failed("read", path);
  ReadTrial trial;
  const int flags = fcntl(file.fd, F_GETFL);
  trial.is_direct = fcntl(file.fd, F_SETFL, flags | O_DIRECT) == 0;
  if (!trial.is_direct) posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
  const Time begin = Now();
  while (trial.n_bytes < limits.n_bytes && trial.spent < limits.time) {
    ssize_t n = pread(file.fd, pages.at, kPieceBytes, trial.n_bytes);
    // Some file systems take the flag and refuse the reading.
    if (n < 0 && errno == EINVAL && trial.is_direct) {
      trial.is_direct = fcntl(file.fd, F_SETFL, flags & ~O_DIRECT) != 0;
      if (!trial.is_direct) continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read", path);
    trial.n_bytes += n;
    trial.spent = Now() - begin;
    if (n < kPieceBytes) break;
  }
  return trial;
}

}  // namespace

Result<ReadTrial> TryReading(std::string_view path, const ReadTrialLimits& limits) {
  const OpenFile file(open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return Failed("opened", path);
  return ReadAll(file, path, limits);
}

Result<ReadTrial> TryFolder(std::string_view folder, const ReadTrialLimits& limits) {
  const OpenFile file(open(std::string(folder).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.fd < 0) return Failed("written to", folder);
  const Pages pages;
  if (pages.at == MAP_FAILED) return Failed("written to", folder);
  const Time begin = Now();
  ReadTrialLimits written = {.n_bytes = 0, .time = limits.time};
  while (written.n_bytes < limits.n_bytes && Now() - begin < limits.time) {
    const ssize_t n = pwrite(file.fd, pages.at, kPieceBytes, written.n_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < kPieceBytes) return Failed("written to", folder);
    written.n_bytes += n;
  }
  if (fdatasync(file.fd) != 0) return Failed("written to", folder);
  return ReadAll(file, folder, written);
}

Status TryListening(std::string_view address, int32_t port) {
  const std::string numeric(address == "localhost" ? "127.0.0.1" : address);
  addrinfo wanted = {};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(numeric.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) {
    return Status::Invalid(fmt::format("{} is no IP address", address));
  }
  const OpenFile opened(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const bool listens =
      opened.fd >= 0 && setsockopt(opened.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      bind(opened.fd, found->ai_addr, found->ai_addrlen) == 0 && listen(opened.fd, 1) == 0;
  const int error = errno;
  freeaddrinfo(found);
  return listens ? Status::Ok() : Status::Invalid(std::generic_category().message(error));
}

std::optional<bool> ClockIsSynchronised() {
  timex t = {};
  const int state = adjtimex(&t);  // modes 0: asks and sets nothing
  if (state < 0) return std::nullopt;
  return state != TIME_ERROR && (t.status & STA_UNSYNC) == 0;
}

}  // namespace sluice
