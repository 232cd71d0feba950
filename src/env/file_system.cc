#include "env/file_system.h"

#include <fmt/format.h>

namespace sluice {
namespace {

Status CannotBeWritten(std::string_view path) {
  return {ErrorCode::kUnsupported, fmt::format("{}: this file system cannot be written", path)};
}

}  // namespace

std::string FileSystem::KindOf(std::string_view) { return "unknown"; }

Result<std::unique_ptr<FileWriter>> FileSystem::Create(std::string_view path) {
  return CannotBeWritten(path);
}

Result<std::unique_ptr<AppendFile>> FileSystem::OpenAppend(std::string_view path, AppendMode) {
  return CannotBeWritten(path);
}

Status FileSystem::MakeFolder(std::string_view path) { return CannotBeWritten(path); }

Status FileSystem::RemoveFolder(std::string_view path) { return CannotBeWritten(path); }

Result<int64_t> FileSystem::FreeBytes(std::string_view path) { return CannotBeWritten(path); }

}  // namespace sluice
