#include "serve/response.h"

#include <fmt/format.h>

namespace sluice::serve {
namespace {

std::string_view ReasonOf(int32_t status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 529:
      return "Overloaded";
    default:
      return "Unknown";
  }
}

}  // namespace

void AppendHead(std::string& out, const HeadLine& line, const Headers& headers) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\nDate: {}\r\n", line.status, ReasonOf(line.status),
                 line.date);
  if (line.framing != Framing::kNoBody)
    fmt::format_to(to, "Content-Type: {}\r\n", line.content_type);
  if (line.framing == Framing::kLength)
    fmt::format_to(to, "Content-Length: {}\r\n", line.content_length);
  if (line.framing == Framing::kChunked) out += "Transfer-Encoding: chunked\r\n";
  if (!line.keep_alive) out += "Connection: close\r\n";
  // HTTP/1.0 clients that asked for it must be told that they got it.
  if (line.keep_alive && line.http_minor == 0) out += "Connection: keep-alive\r\n";
  // Both spellings: the SDKs of the two API families look for one each.
  fmt::format_to(to, "x-request-id: {}\r\nrequest-id: {}\r\n", line.request_id, line.request_id);
  for (const auto& [name, value] : headers) fmt::format_to(to, "{}: {}\r\n", name, value);
  out += "\r\n";
}

const codec::Dialect& ErrorDialect(bool is_anthropic) {
  return codec::DialectOf(is_anthropic ? codec::Api::kMessages : codec::Api::kChat);
}

Response ErrorResponse(const Status& status,
                       const codec::Dialect& dialect,
                       std::string_view request_id) {
  Response response;
  response.status = codec::HttpStatusOf(dialect, status.code());
  response.body = dialect.error_body(status, request_id);
  if (status.code() == ErrorCode::kUnauthenticated)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status.retry_after().ns > 0) {
    int64_t ms = (status.retry_after().ns + 999'999) / 1'000'000;
    response.headers.emplace_back("retry-after", fmt::format("{}", (ms + 999) / 1000));
    response.headers.emplace_back("retry-after-ms", fmt::format("{}", ms));
  }
  return response;
}

}  // namespace sluice::serve
