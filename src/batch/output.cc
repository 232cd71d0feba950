#include "batch/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/limits.h"

namespace sluice::batch {
namespace {

constexpr std::string_view kIdPrefix = "batch_req_";
constexpr size_t kBatchIdDigits = 16;

// Answers may hold more values than a request may, and the echo of a schema nests deeper inside.
constexpr Json::Limits kLineLimits = {
    .text_bytes = kGiB, .depth = limits::kMaxJsonDepth + 8, .values = kGiB};

struct LineMark {
  std::string batch_id;
  uint32_t line_idx = 0;
  bool is_failed = false;
};

// Reads `batch_req_<batch>_<line>`.
bool ReadId(std::string_view id, LineMark& mark) {
  if (!id.starts_with(kIdPrefix)) return false;
  id.remove_prefix(kIdPrefix.size());
  if (id.size() < kBatchIdDigits + 2 || id[kBatchIdDigits] != '_') return false;
  mark.batch_id = id.substr(0, kBatchIdDigits);
  const std::string_view digits = id.substr(kBatchIdDigits + 1);
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || parsed != end) return false;
  if (number < 1 || number > limits::kMaxBatchRows) return false;
  mark.line_idx = static_cast<uint32_t>(number - 1);
  return true;
}

// Absent: no run has written such a line.
std::optional<LineMark> ReadMark(std::string_view line) {
  if (std::ssize(line) > kLineLimits.text_bytes) return std::nullopt;
  const Result<Json> json = Json::Parse(line, kLineLimits);
  if (!json) return std::nullopt;
  const JsonValue id = json->root().Find("id");
  LineMark mark;
  if (!id.is_string() || !ReadId(id.AsString(), mark)) return std::nullopt;
  const JsonValue response = json->root().Find("response");
  const JsonValue status = response.Find("status_code");
  mark.is_failed = !status.is(JsonKind::kInt) || status.AsInt64() != 200;
  return mark;
}

// `{"id":…,"custom_id":…`, open.
JsonWriter& Begin(const RowNames& names, std::string_view custom_id, JsonWriter& w) {
  w.Object().Key("id").String(names.line_id).Key("custom_id");
  return custom_id.empty() ? w.Null() : w.String(custom_id);
}

}  // namespace

RowNames NamesOf(std::string_view batch_id, uint32_t line_idx) {
  const int64_t number = int64_t{line_idx} + 1;
  std::string own = fmt::format("{}{:08x}", batch_id, number);
  return {.line_id = fmt::format("{}{}_{}", kIdPrefix, batch_id, number),
          .request_id = "req_" + own,
          .answer_id = own};
}

std::string ToText(const ResponseLine& line) {
  std::string out;
  out.reserve(line.body.size() + 256);
  JsonWriter w(out);
  Begin(line.names, line.custom_id, w);
  w.Key("response").Object().Key("status_code").Int(line.status);
  w.Key("request_id").String(line.names.request_id).Key("body").Raw(line.body);
  if (!line.ignored_fields.empty()) {
    w.Key("ignored_fields").Array();
    for (const std::string& field : line.ignored_fields) w.String(field);
    w.EndArray();
  }
  w.EndObject().Key("error").Null().EndObject();
  return out += '\n';
}

std::string ToText(const FaultLine& line) {
  std::string out;
  JsonWriter w(out);
  Begin(line.names, line.custom_id, w);
  w.Key("response").Null().Key("error").Object().Key("code").String(line.code);
  w.Key("message").String(line.message).EndObject().EndObject();
  return out += '\n';
}

Result<Earlier> ReadEarlier(std::string_view text) {
  Earlier earlier;
  for (size_t end; (end = text.find('\n', static_cast<size_t>(earlier.n_bytes))) != text.npos;) {
    const size_t begin = static_cast<size_t>(earlier.n_bytes);
    const std::optional<LineMark> mark = ReadMark(text.substr(begin, end - begin));
    const int64_t number = earlier.n_done + 1;
    if (!mark) {
      return Status::Invalid(fmt::format("line {} is not one that `sluice batch` wrote", number));
    }
    if (number > 1 && mark->batch_id != earlier.batch_id) {
      return Status::Invalid(
          fmt::format("line {} was made from another input than line 1", number));
    }
    earlier.batch_id = mark->batch_id;
    if (mark->line_idx >= earlier.done.size()) earlier.done.resize(size_t{mark->line_idx} + 1);
    if (earlier.done[mark->line_idx]) {
      return Status::Invalid(
          fmt::format("line {} answers line {} of the input, which was answered "
                      "before",
                      number, int64_t{mark->line_idx} + 1));
    }
    earlier.done[mark->line_idx] = true;
    ++earlier.n_done;
    if (mark->is_failed) ++earlier.n_failed;
    earlier.n_bytes = static_cast<int64_t>(end) + 1;
  }
  return earlier;
}

Result<Output> OpenOutput(FileSystem& files, const std::string& path, bool resume) {
  Output output;
  if (!resume) {
    const Result<int64_t> size = files.Size(path);
    if (!size && size.error().code() == ErrorCode::kNotFound) return output;
    return Status::Invalid(fmt::format(
        "{}: exists already; --resume goes on with it, if it was made from this input", path));
  }
  SLUICE_TRY(output.file, files.OpenAppend(path, AppendMode::kKeep));
  SLUICE_TRY(const MappedFile mapped, files.Map(path));
  Result<Earlier> earlier = ReadEarlier(mapped.text());
  if (!earlier) return std::move(earlier.error().AddContext(path));
  output.earlier = std::move(*earlier);
  return output;
}

Status BeginOutput(FileSystem& files,
                   const std::string& path,
                   std::string_view batch_id,
                   Output& output) {
  const Earlier& earlier = output.earlier;
  if (earlier.n_done > 0 && earlier.batch_id != batch_id) {
    return Status::Invalid(
        fmt::format("{}: was made from another input, or from this one before it was changed; "
                    "only that one can be gone on with",
                    path));
  }
  if (output.file == nullptr) {
    SLUICE_TRY(output.file, files.OpenAppend(path, AppendMode::kNew));
    return Status::Ok();
  }
  return output.file->Cut(earlier.n_bytes);
}

}  // namespace sluice::batch
