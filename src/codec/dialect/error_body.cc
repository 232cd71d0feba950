#include "codec/dialect/error_body.h"

#include <fmt/format.h>

#include "base/json_writer.h"

namespace sluice::codec {

std::string ShownMessage(const Status& status, std::string_view request_id) {
  const bool is_ours =
      status.code() == ErrorCode::kInternal || status.code() == ErrorCode::kCorrupt;
  if (!is_ours) return std::string(status.message());
  return fmt::format("The server had an error while processing this request (request id {}).",
                     request_id);
}

std::string OpenAiErrorBody(const Status& status, std::string_view request_id) {
  std::string body;
  JsonWriter w(body);
  w.Object().Key("error").Object();
  w.Key("message").String(ShownMessage(status, request_id));
  w.Key("type").String(RowOf(status.code()).openai_type);
  w.Key("param");
  status.param().empty() ? w.Null() : w.String(status.param());
  w.Key("code").String(status.api_code());
  w.EndObject().EndObject();
  return body;
}

}  // namespace sluice::codec
