// FileSystem: the files an operator names. Errors contain the path as it was given and nothing else
// about the machine. Thread-safe; calls block, so they belong to start-up and to reloads.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace sluice {

// MappedFile: the bytes of a file as memory, read-only, for as long as this lives. Reading brings
// pages in from the disk and may block; the system may drop them again.
//
// The file must not become shorter while it is mapped: reading behind its new end ends the process
// (SIGBUS). Model files are written once; whoever replaces one writes another file and renames it.
//
// Thread-compatible; any thread may read the bytes.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  ConstBytes bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // How the bytes [begin, begin + n_bytes) will be read; within the file. Whole pages; only speed
  // and memory change.
  enum class Advice : uint8_t {
    kSequential,  // front to back, once
    kRandom,      // here and there: do not read ahead
    kDrop,        // not soon again: the pages may go
  };
  void Advise(Advice advice, int64_t begin, int64_t n_bytes) const;
  // kDrop for `part`, if that lies in bytes().
  void Drop(ConstBytes part) const;

 private:
  friend class PosixFileSystem;
  explicit MappedFile(ConstBytes bytes) : bytes_(bytes) {}

  ConstBytes bytes_;  // of mmap; nothing for an empty file
};

// FileWriter: a file that is written front to back and appears under its name when it is complete.
// Until then its bytes lie beside it, under its name with ".partial" behind.
//
// Owned by one thread. Destroying one that did not finish removes what was written; a process that
// is killed leaves the partial file, and never an incomplete one under the final name. Errors name
// the path as given to Create.
class FileWriter {
 public:
  virtual ~FileWriter() = default;

  // kInternal for a disk that is full or fails, and for a file above the limit of the process.
  // After an error there is nothing to do but to destroy this.
  virtual Status Append(ConstBytes bytes) = 0;

  // Brings everything to the disk and gives the file its name, replacing a file that has it. Once,
  // as the last call.
  virtual Status Finish() = 0;
};

// AppendFile: a file that grows line by line. What Append has taken outlives the process, whatever
// ends it; what Sync has confirmed outlives the machine. Locked: no other process can have it open
// at the same time.
//
// Owned by one thread. Errors as FileWriter's, with the path as given to OpenAppend.
class AppendFile {
 public:
  virtual ~AppendFile() = default;

  // In one piece, if the system has room. After an error, and after a process that was killed, only
  // a beginning of the bytes may be there.
  virtual Status Append(ConstBytes bytes) = 0;

  // Brings everything to the disk.
  virtual Status Sync() = 0;

  // Drops what lies behind the first n_bytes.
  virtual Status Cut(int64_t n_bytes) = 0;
};

enum class AppendMode : uint8_t {
  kNew,   // kInvalidArgument where there is something of this name
  kKeep,  // what is there stays; a file that is missing is made
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // kNotFound, kPermissionDenied, kTooLarge above max_bytes, kInvalidArgument for what is not a
  // file.
  virtual Result<std::string> ReadWhole(std::string_view path, int64_t max_bytes) = 0;

  // The whole file as memory. Errors as ReadWhole; there is no limit, since nothing is read.
  virtual Result<MappedFile> Map(std::string_view path) = 0;

  // Bytes of a file.
  virtual Result<int64_t> Size(std::string_view path) = 0;

  // Names of what lies in a folder, sorted, without "." and "..". kInvalidArgument for what is not
  // a folder.
  virtual Result<std::vector<std::string>> List(std::string_view folder) = 0;

  // When the content last changed: a file is read again only then.
  virtual Result<WallTime> ModifiedAt(std::string_view path) = 0;

  // What kind of file system a file or folder lies on, for people: "ext4", "nfs"; "unknown" if that
  // cannot be told.
  virtual std::string KindOf(std::string_view path);

  // The following change the disk. As written here they are those of a file system that cannot be
  // written: kUnsupported.

  // kNotFound without the folder, kPermissionDenied, kInvalidArgument where a folder has this name.
  virtual Result<std::unique_ptr<FileWriter>> Create(std::string_view path);

  // Errors as Create; kInvalidArgument also where another process has it open.
  virtual Result<std::unique_ptr<AppendFile>> OpenAppend(std::string_view path, AppendMode mode);

  // One folder, whose parent exists. Ok if it is there already.
  virtual Status MakeFolder(std::string_view path);

  // A folder with all that is in it; links are removed, not followed. Ok if it is not there.
  virtual Status RemoveFolder(std::string_view path);

  // Bytes that may still be written to the disk on which a file or folder lies.
  virtual Result<int64_t> FreeBytes(std::string_view path);
};

}  // namespace sluice
