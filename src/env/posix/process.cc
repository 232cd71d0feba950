#include "env/posix/process.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

// What the program's standard streams are.
class Streams {
 public:
  Streams() {
    SLUICE_CHECK(posix_spawn_file_actions_init(&actions_) == 0);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
  }
  ~Streams() { posix_spawn_file_actions_destroy(&actions_); }
  Streams(const Streams&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

int32_t WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) SLUICE_CHECK(errno == EINTR);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<int32_t> RunProgram(std::span<const std::string> args) {
  SLUICE_CHECK(!args.empty());
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const Streams streams;
  pid_t pid = 0;
  // tidy: allow, passed on as it is; nothing here reads it
  char* const* const environment = environ;
  const int error =
      posix_spawnp(&pid, argv[0], streams.actions(), nullptr, argv.data(), environment);
  if (error == 0) return WaitFor(pid);
  if (error == ENOENT) {
    return Status(ErrorCode::kNotFound, fmt::format("there is no program {}", args[0]));
  }
  return Status(ErrorCode::kInternal, fmt::format("{} cannot be started: {}", args[0],
                                                  std::generic_category().message(error)));
}

}  // namespace sluice
