// Row: one line of a batch's input, in the form of OpenAI's batches:
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
// The body is a request as the server gets it. Pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codec/dialect.h"

namespace sluice::batch {

struct Row {
  std::string custom_id;                    // empty: it has none
  const codec::Dialect* dialect = nullptr;  // null only with a fault
  std::string body;                         // JSON text

  // Why it is no request; an empty code: it is one.
  std::string_view fault_code;  // "invalid_url"
  std::string fault;
};

// Reads a line, without what ends it. Never fails: what is wrong is the row's fault.
Row ReadRow(std::string_view line);

// Nothing but white space: no row.
bool IsBlank(std::string_view line);

// What the row's answer takes instead of random numbers, so that it is the same in every run. Of
// the line alone: other rows change nothing.
struct RowSeeds {
  uint64_t sampling = 0;  // unless the request brings its own seed
  uint64_t call_ids = 0;
};
RowSeeds SeedsOf(std::string_view line);

}  // namespace sluice::batch
