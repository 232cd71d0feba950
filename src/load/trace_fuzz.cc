// Whatever a file holds: no crash, no report, and what is accepted is within its limits.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "load/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto trace = load::ParseTrace(text)) {
    for (const load::TraceConversation& conversation : *trace) {
      SLUICE_CHECK(!conversation.turns.empty() && !conversation.turns[0].is_tool_result);
    }
  }
  if (const auto requests = load::ParseRequests(text, load::Api::kChat)) {
    for (const load::FileRequest& request : *requests) {
      const Result<Json> body = Json::Parse(request.body);
      SLUICE_CHECK(body.has_value() && body->root().Find("stream").AsBool());
    }
  }
  return 0;
}
