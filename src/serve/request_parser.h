// RequestParser: bytes of one HTTP/1.x request in, head and body out. Beast does the parsing; this
// class holds the limits and turns its verdicts into Status. No sockets, so that the fuzzer and the
// connection use the same code. Owned by the net thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::serve {

struct RequestHead {
  std::string method;  // as sent: "POST"
  std::string path;  // without query and fragment, absolute form reduced to its path; not unescaped
  std::string query;  // between ? and #; not unescaped
  int32_t http_minor = 1;
  bool keep_alive = true;
  bool expects_continue = false;
  bool has_body = false;        // a length above 0 or chunked
  int64_t content_length = -1;  // -1: chunked or none
  std::string host;             // authority, as sent
  std::string origin;
  std::string content_type;      // lower case, without parameters
  std::string content_encoding;  // lower case, empty: identity
  std::string bearer;            // credential of Authorization: Bearer
  std::string api_key;           // x-api-key
  std::string if_none_match;     // as sent
  bool accepts_html = false;     // names text/html: a browser that opens a page
  bool is_anthropic = false;     // speaks Anthropic's API: its version header, or below its path
};

class RequestParser {
 public:
  struct Limits {
    int64_t header_bytes;  // request line and header fields
    int64_t body_bytes;
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;

  // Takes bytes from the front of `bytes` and returns how many; the caller keeps the rest and gives
  // it again, longer. Stops behind the head, and behind the body: what follows belongs to the next
  // request. An error is final.
  Result<size_t> Feed(std::string_view bytes);

  bool head_done() const;
  bool done() const;
  const RequestHead& head() const;  // must be head_done()

  // Bytes of the body so far, and the body itself once done().
  int64_t body_size() const;
  std::string TakeBody();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::serve
