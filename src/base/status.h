// Status: how something ended. OK costs one null pointer; everything else carries a code, a
// sentence and, for bad input, the field it names. The code decides the HTTP status and the API
// error type by the one table in status.cc.
//
// Thread-compatible plain value.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice {

// Deterministic input errors are 4xx: clients retry every 5xx, up to thirty times (spec http-api.md
// §10.1).
enum class ErrorCode : uint8_t {
  kOk,
  kInvalidArgument,   // a field has a value that is not allowed
  kContextLength,     // prompt plus limit exceed the model's context
  kUnauthenticated,   // no key or an unknown one
  kPermissionDenied,  // known, but not allowed here (Host, Origin, admin from outside)
  kNotFound,          // no such path or object
  kModelNotFound,     // no such model name
  kResponseNotFound,  // no such response to go on from: unknown, expired or another key's
  kItemNotFound,      // no such output item to refer to, likewise
  kUnsupportedField,  // a documented field that we refuse rather than lose what it means
  kMethodNotAllowed,  // the path exists, the method does not
  kRequestTimeout,    // the client did not send its request in time
  kTooLarge,          // body, decoded body or field above its limit
  kUnsupportedMedia,  // content type or content encoding we do not read
  kHeaderTooLarge,    // request line and headers above their limit
  kRateLimited,       // this tenant is above its own limit
  kCancelled,         // the client went away
  kInternal,          // our fault; the text never leaves the process
  kUnsupported,       // understood, but not built in
  kOverloaded,        // a bounded queue is full or the server is draining
  kDeadlineExceeded,  // accepted, but not finished in time
  kCorrupt,           // stored or received bytes are not what they claim to be
};
inline constexpr int kNumErrorCodes = 22;

// One row of the error table.
struct ErrorRow {
  ErrorCode code;
  const char* name;            // for logs and metrics: "invalid_argument"
  int http_status;             // OpenAI forms and everything that is not Messages
  const char* openai_type;     // error.type
  const char* openai_code;     // error.code, unless the Status carries its own
  const char* anthropic_type;  // error.type on Messages
};
const ErrorRow& RowOf(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(ErrorCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status Ok() { return Status(); }
  static Status Invalid(std::string message) {
    return {ErrorCode::kInvalidArgument, std::move(message)};
  }
  // Bad input in a named field ("temperature", "messages[2].content").
  static Status InvalidField(std::string param, std::string message);

  bool ok() const { return detail_ == nullptr; }
  ErrorCode code() const { return detail_ ? detail_->code : ErrorCode::kOk; }
  std::string_view message() const {
    return detail_ ? std::string_view(detail_->message) : std::string_view();
  }
  std::string_view param() const {
    return detail_ ? std::string_view(detail_->param) : std::string_view();
  }
  // The API's error.code: its own, or that of the table; empty for OK.
  std::string_view api_code() const {
    if (detail_ == nullptr) return {};
    return has_own_api_code() ? detail_->api_code : RowOf(detail_->code).openai_code;
  }
  bool has_own_api_code() const { return detail_ != nullptr && detail_->api_code != nullptr; }
  // When a retry may succeed; zero: unknown.
  Duration retry_after() const { return detail_ ? detail_->retry_after : Duration(); }

  // Setters return *this so that a refusal reads as one expression. Must not be called on OK.
  Status& set_param(std::string param);
  Status& set_retry_after(Duration retry_after);
  // A literal: which of several reasons for one code it is, for programs.
  Status& set_api_code(const char* api_code);
  // "context: message"; for the level that knows the name of the thing.
  Status& AddContext(std::string_view context);

  // "invalid_argument: message", for logs.
  std::string ToString() const;

 private:
  struct Detail {
    ErrorCode code;
    std::string message;
    std::string param;
    Duration retry_after;
    const char* api_code = nullptr;  // null: that of the table
  };
  std::unique_ptr<Detail> detail_;
};

}  // namespace sluice
