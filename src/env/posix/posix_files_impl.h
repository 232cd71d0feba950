// The files of PosixEnv. Thread-safe.

#pragma once

#include "env/file_system.h"

namespace sluice {

class PosixFileSystem : public FileSystem {
 public:
  Result<std::string> ReadWhole(std::string_view path, int64_t max_bytes) override;
  Result<MappedFile> Map(std::string_view path) override;
  Result<int64_t> Size(std::string_view path) override;
  Result<std::vector<std::string>> List(std::string_view folder) override;
  Result<WallTime> ModifiedAt(std::string_view path) override;
  Result<std::unique_ptr<FileWriter>> Create(std::string_view path) override;
  Result<std::unique_ptr<AppendFile>> OpenAppend(std::string_view path, AppendMode mode) override;
  Status MakeFolder(std::string_view path) override;
  Status RemoveFolder(std::string_view path) override;
  std::string KindOf(std::string_view path) override;
  Result<int64_t> FreeBytes(std::string_view path) override;
};

}  // namespace sluice
