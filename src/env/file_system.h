// FileSystem: the files an operator names. Errors contain the path as it was given and nothing else
// about the machine. Thread-safe; calls block, so they belong to start-up and to reloads.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace sluice {

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // kNotFound, kPermissionDenied, kTooLarge above max_bytes, kInvalidArgument for what is not a
  // file.
  virtual Result<std::string> ReadWhole(std::string_view path, int64_t max_bytes) = 0;

  // When the content last changed: a file is read again only then.
  virtual Result<WallTime> ModifiedAt(std::string_view path) = 0;
};

}  // namespace sluice
