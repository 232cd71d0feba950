#include "base/status.h"

#include "base/check.h"

namespace sluice {
namespace {

// spec http-api.md §1 (errors, status codes) and recipe.md §7.5. The one place that maps errors to
// the APIs.
constexpr ErrorRow kRows[kNumErrorCodes] = {
    {ErrorCode::kOk, "ok", 200, "", "", ""},
    {ErrorCode::kInvalidArgument, "invalid_argument", 400, "invalid_request_error",
     "invalid_request_error", "invalid_request_error"},
    {ErrorCode::kContextLength, "context_length", 400, "invalid_request_error",
     "context_length_exceeded", "invalid_request_error"},
    {ErrorCode::kUnauthenticated, "unauthenticated", 401, "authentication_error", "invalid_api_key",
     "authentication_error"},
    {ErrorCode::kPermissionDenied, "permission_denied", 403, "permission_error",
     "permission_denied", "permission_error"},
    {ErrorCode::kNotFound, "not_found", 404, "invalid_request_error", "not_found",
     "not_found_error"},
    {ErrorCode::kModelNotFound, "model_not_found", 404, "invalid_request_error", "model_not_found",
     "not_found_error"},
    {ErrorCode::kResponseNotFound, "response_not_found", 400, "invalid_request_error",
     "previous_response_not_found", "invalid_request_error"},
    {ErrorCode::kItemNotFound, "item_not_found", 404, "invalid_request_error", "item_not_found",
     "not_found_error"},
    {ErrorCode::kUnsupportedField, "unsupported_field", 400, "invalid_request_error",
     "unsupported_parameter", "invalid_request_error"},
    {ErrorCode::kMethodNotAllowed, "method_not_allowed", 405, "invalid_request_error",
     "method_not_allowed", "invalid_request_error"},
    {ErrorCode::kRequestTimeout, "request_timeout", 408, "invalid_request_error", "request_timeout",
     "timeout_error"},
    {ErrorCode::kTooLarge, "too_large", 413, "invalid_request_error", "request_too_large",
     "request_too_large"},
    {ErrorCode::kUnsupportedMedia, "unsupported_media", 415, "invalid_request_error",
     "unsupported_media_type", "invalid_request_error"},
    {ErrorCode::kHeaderTooLarge, "header_too_large", 431, "invalid_request_error",
     "header_too_large", "request_too_large"},
    {ErrorCode::kRateLimited, "rate_limited", 429, "rate_limit_error", "rate_limit_exceeded",
     "rate_limit_error"},
    {ErrorCode::kCancelled, "cancelled", 499, "invalid_request_error", "cancelled",
     "invalid_request_error"},
    {ErrorCode::kInternal, "internal", 500, "internal_error", "internal_error", "api_error"},
    {ErrorCode::kUnsupported, "unsupported", 501, "invalid_request_error", "unsupported",
     "invalid_request_error"},
    {ErrorCode::kOverloaded, "overloaded", 503, "overloaded_error", "overloaded",
     "overloaded_error"},
    {ErrorCode::kDeadlineExceeded, "deadline_exceeded", 504, "timeout_error", "deadline_exceeded",
     "timeout_error"},
    {ErrorCode::kCorrupt, "corrupt", 500, "internal_error", "internal_error", "api_error"},
};

}  // namespace

const ErrorRow& RowOf(ErrorCode code) {
  const ErrorRow& row = kRows[static_cast<int>(code)];
  SLUICE_CHECK(row.code == code);
  return row;
}

Status::Status(ErrorCode code, std::string message) {
  SLUICE_CHECK(code != ErrorCode::kOk);
  detail_ = std::make_unique<Detail>(
      Detail{.code = code, .message = std::move(message), .param = {}, .retry_after = {}});
}

Status::Status(const Status& other)
    : detail_(other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) detail_ = other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr;
  return *this;
}

Status Status::InvalidField(std::string param, std::string message) {
  Status status(ErrorCode::kInvalidArgument, std::move(message));
  status.set_param(std::move(param));
  return status;
}

Status& Status::set_param(std::string param) {
  SLUICE_CHECK(detail_);
  detail_->param = std::move(param);
  return *this;
}

Status& Status::set_retry_after(Duration retry_after) {
  SLUICE_CHECK(detail_);
  detail_->retry_after = retry_after;
  return *this;
}

Status& Status::set_api_code(const char* api_code) {
  SLUICE_CHECK(detail_);
  detail_->api_code = api_code;
  return *this;
}

Status& Status::AddContext(std::string_view context) {
  if (detail_) detail_->message = std::string(context) + ": " + detail_->message;
  return *this;
}

std::string Status::ToString() const {
  if (!detail_) return "ok";
  std::string text = std::string(RowOf(detail_->code).name) + ": " + detail_->message;
  if (!detail_->param.empty()) text += " (" + detail_->param + ")";
  return text;
}

}  // namespace sluice
