// The second look at a JSON text, private to json.cc. simdjson says that something is wrong, but
// not where, and refuses two things that we accept; this slower scanner finds the place, or
// rewrites the text so that simdjson takes it:
//   lone surrogate escapes    -> \ufffd
//   integers beyond 64 bits   -> with a fraction, so that they are read as doubles; so is -0, which
//   has no integer
//
// Pure; does not recurse.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct JsonScan {
  struct Error {
    size_t offset;
    std::string what;
  };
  std::optional<Error> error;
  int64_t n_values = 0;
  std::optional<std::string> rewritten;  // absent: the text may stay as it is
};

JsonScan ScanJson(std::string_view text, int32_t depth_max, int64_t n_values_max);

}  // namespace sluice
