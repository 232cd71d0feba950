#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "env/posix/posix_files_impl.h"

namespace sluice {
namespace {

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
      return {ErrorCode::kInternal,
              fmt::format("{}: cannot be read: {}", path, std::generic_category().message(error))};
  }
}

// Only regular files have a size that says how much there is.
Result<int64_t> SizeOfRegular(std::string_view path, const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return FailedToRead(path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return Status::Invalid(fmt::format("{}: is not a regular file", path));
  }
  return int64_t{info.st_size};
}

}  // namespace

Result<std::string> PosixFileSystem::ReadWhole(std::string_view path, int64_t max_bytes) {
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

Result<MappedFile> PosixFileSystem::Map(std::string_view path) {
  // A pipe that nobody writes to must not block us before it is refused.
  OpenFile file(open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return FailedToRead(path, errno);
  struct stat info;
  if (fstat(file.fd, &info) != 0) return FailedToRead(path, errno);
  SLUICE_TRY(const int64_t n_bytes, SizeOfRegular(path, info));
  if (n_bytes == 0) return MappedFile();
  void* at = mmap(nullptr, static_cast<size_t>(n_bytes), PROT_READ, MAP_SHARED, file.fd, 0);
  if (at == MAP_FAILED) {
    return Status(ErrorCode::kInternal,
                  fmt::format("{}: {} bytes cannot be mapped: {}", path, n_bytes,
                              std::generic_category().message(errno)));
  }
  return MappedFile({static_cast<const std::byte*>(at), static_cast<size_t>(n_bytes)});
}

Result<int64_t> PosixFileSystem::Size(std::string_view path) {
  struct stat info;
  if (stat(std::string(path).c_str(), &info) != 0) return FailedToRead(path, errno);
  return SizeOfRegular(path, info);
}

Result<std::vector<std::string>> PosixFileSystem::List(std::string_view folder) {
  DIR* directory = opendir(std::string(folder).c_str());
  if (directory == nullptr) {
    const int error = errno;
    if (error == ENOTDIR) return Status::Invalid(fmt::format("{}: is not a directory", folder));
    return FailedToRead(folder, error);
  }
  std::vector<std::string> names;
  // NOLINTNEXTLINE: each call has a stream of its own, so readdir is safe here.
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

Result<WallTime> PosixFileSystem::ModifiedAt(std::string_view path) {
  struct stat info;
  if (stat(std::string(path).c_str(), &info) != 0) return FailedToRead(path, errno);
  return WallTime{int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::Advise(Advice advice, int64_t begin, int64_t n_bytes) const {
  SLUICE_CHECK(begin >= 0 && n_bytes >= 0 && begin <= static_cast<int64_t>(bytes_.size()) &&
               n_bytes <= static_cast<int64_t>(bytes_.size()) - begin);
  if (n_bytes == 0) return;
  // The system takes whole pages from the beginning of one.
  const int64_t first = begin - begin % sysconf(_SC_PAGESIZE);
  const int kind = advice == Advice::kSequential ? MADV_SEQUENTIAL
                   : advice == Advice::kRandom   ? MADV_RANDOM
                                                 : MADV_DONTNEED;
  // tidy: allow, a hint about pages of a file; memory stays where it is
  madvise(const_cast<std::byte*>(bytes_.data()) + first,
          static_cast<size_t>(begin - first + n_bytes), kind);
}

void MappedFile::Drop(ConstBytes part) const {
  const bool is_here =
      part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + bytes_.size();
  if (!is_here) return;
  Advise(Advice::kDrop, part.data() - bytes_.data(), static_cast<int64_t>(part.size()));
}

std::string PosixFileSystem::KindOf(std::string_view path) {
  // Not in linux/magic.h.
  constexpr int64_t kFuse = 0x65735546, kZfs = 0x2fc12fc1, kExfat = 0x2011bab0, kNtfs = 0x7366746e;
  struct statfs info;
  if (statfs(std::string(path).c_str(), &info) != 0) return "unknown";
  switch (static_cast<int64_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case XFS_SUPER_MAGIC:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case kZfs:
      return "zfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case CEPH_SUPER_MAGIC:
      return "ceph";
    case SMB2_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
      return "smb";
    case V9FS_MAGIC:
      return "9p";
    case kFuse:
      return "fuse";
    case kExfat:
      return "exfat";
    case kNtfs:
      return "ntfs";
    default:
      return fmt::format("{:#x}", static_cast<uint64_t>(info.f_type));
  }
}

}  // namespace sluice
