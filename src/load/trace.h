// Trace: conversations to replay, one a line of a JSONL file (docs/bench.md). Parsed once, bounded
// by base/limits.def. Plain data.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "load/options.h"

namespace sluice::load {

struct TraceTurn {
  std::string text;
  bool is_tool_result = false;  // answers the calls of the answer before
  Duration think;               // from the end of the answer before
  int64_t n_max = 0;            // 0: the server's own limit
};

struct TraceConversation {
  std::string system;
  std::string tools;  // JSON list in the form of the API, or empty
  std::vector<TraceTurn> turns;
};

// Errors name the line. Empty lines are skipped.
Result<std::vector<TraceConversation>> ParseTrace(std::string_view text);

// The lines of a file of request bodies, each an object, made to stream and to tell its usage.
struct FileRequest {
  std::string body;
  int64_t n_max = 0;
};
Result<std::vector<FileRequest>> ParseRequests(std::string_view text, Api api);

}  // namespace sluice::load
