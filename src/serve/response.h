// Response: an answer that is known as a whole, and how any answer's head is written. Pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "codec/dialect.h"
#include "serve/request_parser.h"

namespace sluice::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Response {
  int32_t status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

enum class Framing : uint8_t {
  kLength,   // content-length
  kChunked,  // HTTP/1.1 streams
  kClose,    // HTTP/1.0 streams end with the connection
  kNoBody,   // 204, 304
};

struct HeadLine {
  int32_t status;
  std::string_view content_type;
  Framing framing;
  int64_t content_length = 0;  // kLength
  bool keep_alive = true;
  int32_t http_minor = 1;
  std::string_view date;  // IMF-fixdate
  std::string_view request_id;
};

// Appends status line, header fields and the empty line.
void AppendHead(std::string& out, const HeadLine& line, const Headers& headers);

// Whose error form is used where the path belongs to no dialect.
const codec::Dialect& ErrorDialect(bool is_anthropic);

// The error as `dialect`'s clients expect it, with retry headers. The text of an internal error
// stays inside.
Response ErrorResponse(const Status& status,
                       const codec::Dialect& dialect,
                       std::string_view request_id);

}  // namespace sluice::serve
