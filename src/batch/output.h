// The output of a batch: one line for each row, in the form of OpenAI's batches, and what a run
// that was interrupted has left of it. Pure functions.
//
// The id of a line says which row of which batch it answers:
//   batch_req_<digest of the input, 16 hexadecimal digits>_<line of the row, counted from 1>
// so a file of answers needs no other file beside it to be gone on with.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"

namespace sluice::batch {

// The names of one row's answer: the same in every run.
struct RowNames {
  std::string line_id;     // batch_req_...
  std::string request_id;  // req_..., as the server calls a request
  std::string answer_id;   // of the answer inside: "chatcmpl-..." is made from it
};
RowNames NamesOf(std::string_view batch_id, uint32_t line_idx);

// An answer, or the error of the API. Ends with a line feed, as the next one.
struct ResponseLine {
  const RowNames& names;
  std::string_view custom_id;
  int32_t status = 200;   // HTTP
  std::string_view body;  // JSON text
  // Fields of the request without effect, which the server names in a header; a member of ours.
  const std::vector<std::string>& ignored_fields;
};
std::string ToText(const ResponseLine& line);

// A row that is no request. An empty custom_id is null.
struct FaultLine {
  const RowNames& names;
  std::string_view custom_id;
  std::string_view code;
  std::string_view message;
};
std::string ToText(const FaultLine& line);

// What is there of an output.
struct Earlier {
  std::string batch_id;    // of the input it was made from; empty: there is no line
  std::vector<bool> done;  // by line of the input
  int64_t n_done = 0;
  int64_t n_failed = 0;  // of those
  int64_t n_bytes = 0;   // whole lines; behind them there may be a torn one
};
// kInvalidArgument for what no run has written, with the line.
Result<Earlier> ReadEarlier(std::string_view text);

struct Output {
  std::unique_ptr<AppendFile> file;  // null: it is made when the first line is near
  Earlier earlier;
};
// To be gone on with, or one that is not there yet: kInvalidArgument where it is.
Result<Output> OpenOutput(FileSystem& files, const std::string& path, bool resume);

// Makes it, or cuts off what was torn: lines may be appended. kInvalidArgument, and nothing has
// changed, if it was made from another input than the one with this batch id.
Status BeginOutput(FileSystem& files,
                   const std::string& path,
                   std::string_view batch_id,
                   Output& output);

}  // namespace sluice::batch
