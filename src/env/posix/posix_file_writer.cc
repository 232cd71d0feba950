// The writing half of PosixFileSystem.

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "env/posix/posix_files_impl.h"

namespace sluice {
namespace {

Status FailedToWrite(std::string_view path, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return {ErrorCode::kInternal, fmt::format("{}: the disk is full", path)};
    case EFBIG:
      return {ErrorCode::kInternal,
              fmt::format("{}: larger than a file may be here (see `ulimit -f`)", path)};
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::kNotFound, fmt::format("{}: its folder does not exist", path)};
    case EACCES:
    case EPERM:
    case EROFS:
      return {ErrorCode::kPermissionDenied, fmt::format("{}: no permission to write it", path)};
    case EISDIR:
      return Status::Invalid(fmt::format("{}: is a directory, not a file", path));
    default:
      return {ErrorCode::kInternal, fmt::format("{}: cannot be written: {}", path,
                                                std::generic_category().message(error))};
  }
}

// Of a path; what lies in the working directory lies in ".".
std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash + 1);
}

// A name is on the disk once its folder is.
int SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  // Some file systems have nothing to bring to the disk for a folder and say EINVAL.
  const int error = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
  close(fd);
  return error;
}

Status WriteAll(int fd, ConstBytes bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return FailedToWrite(path, errno);
    if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return Status::Ok();
}

class PosixFileWriter final : public FileWriter {
 public:
  PosixFileWriter(std::string path, std::string partial, int fd)
      : path_(std::move(path)), partial_(std::move(partial)), fd_(fd) {}
  ~PosixFileWriter() override {
    if (fd_ >= 0) close(fd_);
    if (!is_finished_) unlink(partial_.c_str());
  }
  PosixFileWriter(const PosixFileWriter&) = delete;

  Status Append(ConstBytes bytes) override {
    SLUICE_CHECK(fd_ >= 0);
    return WriteAll(fd_, bytes, path_);
  }

  Status Finish() override {
    SLUICE_CHECK(fd_ >= 0);
    if (fsync(fd_) != 0) return FailedToWrite(path_, errno);
    // Network file systems tell here that the disk is full.
    if (close(std::exchange(fd_, -1)) != 0) return FailedToWrite(path_, errno);
    if (rename(partial_.c_str(), path_.c_str()) != 0) return FailedToWrite(path_, errno);
    is_finished_ = true;
    const int error = SyncFolder(FolderOf(path_));
    return error == 0 ? Status::Ok() : FailedToWrite(path_, error);
  }

 private:
  const std::string path_;
  const std::string partial_;
  int fd_;  // -1 once closed
  bool is_finished_ = false;
};

class PosixAppendFile final : public AppendFile {
 public:
  PosixAppendFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixAppendFile() override { close(fd_); }
  PosixAppendFile(const PosixAppendFile&) = delete;

  Status Append(ConstBytes bytes) override { return WriteAll(fd_, bytes, path_); }
  Status Sync() override {
    return fdatasync(fd_) == 0 ? Status::Ok() : FailedToWrite(path_, errno);
  }
  Status Cut(int64_t n_bytes) override {
    return ftruncate(fd_, n_bytes) == 0 ? Status::Ok() : FailedToWrite(path_, errno);
  }

 private:
  const std::string path_;
  const int fd_;
};

}  // namespace

Result<std::unique_ptr<AppendFile>> PosixFileSystem::OpenAppend(std::string_view path,
                                                                AppendMode mode) {
  const std::string name(path);
  // A pipe that nobody reads must not block us before it is refused.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  const int fd = open(name.c_str(), mode == AppendMode::kNew ? flags | O_EXCL : flags, 0666);
  if (fd < 0 && errno == EEXIST) return Status::Invalid(fmt::format("{}: exists already", path));
  if (fd < 0) return FailedToWrite(path, errno);
  auto file = std::make_unique<PosixAppendFile>(name, fd);
  struct stat info;
  if (fstat(fd, &info) != 0) return FailedToWrite(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Status::Invalid(fmt::format("{}: is not a regular file", path));
  }
  // Where there are no locks, nobody is kept out.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Status::Invalid(fmt::format("{}: another process is writing it", path));
  }
  const int error = SyncFolder(FolderOf(name));
  if (error != 0) return FailedToWrite(path, error);
  return std::unique_ptr<AppendFile>(std::move(file));
}

Result<std::unique_ptr<FileWriter>> PosixFileSystem::Create(std::string_view path) {
  const std::string name(path);
  struct stat info;
  // Told now instead of after writing. A file cannot take the place of a folder, and must not take
  // that of a device: a privileged user would lose /dev/null.
  if (stat(name.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return FailedToWrite(path, EISDIR);
    if (!S_ISREG(info.st_mode)) {
      return Status::Invalid(fmt::format("{}: is not a regular file", path));
    }
  }
  const std::string partial = name + ".partial";
  // What a killed process left is written over; a link is not followed.
  const int fd = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return FailedToWrite(path, errno);
  return std::unique_ptr<FileWriter>(std::make_unique<PosixFileWriter>(name, partial, fd));
}

Status PosixFileSystem::MakeFolder(std::string_view path) {
  const std::string name(path);
  if (mkdir(name.c_str(), 0777) == 0) return Status::Ok();
  const int error = errno;
  struct stat info;
  if (error == EEXIST && stat(name.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Status::Ok();
    return Status::Invalid(fmt::format("{}: is a file, not a directory", path));
  }
  return FailedToWrite(path, error);
}

Status PosixFileSystem::RemoveFolder(std::string_view path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? FailedToWrite(path, error.value()) : Status::Ok();
}

Result<int64_t> PosixFileSystem::FreeBytes(std::string_view path) {
  struct statvfs info;
  if (statvfs(std::string(path).c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return Status(ErrorCode::kNotFound, fmt::format("{}: no such file or directory", path));
    }
    return Status(ErrorCode::kInternal, fmt::format("{}: its free space cannot be read: {}", path,
                                                    std::generic_category().message(error)));
  }
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace sluice
