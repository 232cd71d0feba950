#include "batch/row.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>

#include "base/json.h"
#include "base/limits.h"
#include "base/sha256.h"

namespace sluice::batch {
namespace {

// The body may nest as deep as one that the server gets: the row is one container around it.
constexpr Json::Limits kRowLimits = {.text_bytes = limits::kMaxBatchLineBytes,
                                     .depth = limits::kMaxJsonDepth + 1,
                                     .values = limits::kMaxJsonValues + 16};

Row& Blame(Row& row, std::string_view code, std::string text) {
  row.fault_code = code;
  row.fault = std::move(text);
  return row;
}

const codec::Dialect* FindDialect(std::string_view url) {
  for (const codec::Dialect& dialect : codec::Dialects()) {
    for (const char* path : dialect.paths) {
      if (url == path) return &dialect;
    }
  }
  return nullptr;
}

// The first path of each API.
std::string KnownUrls() {
  std::string text;
  for (const codec::Dialect& dialect : codec::Dialects()) {
    if (!text.empty()) text += ", ";
    text += dialect.paths.front();
  }
  return text;
}

// For an error: as much of a value as a reader needs.
std::string Shown(const JsonValue& value) {
  constexpr size_t kShownBytes = 64;
  std::string text = value.ToText();
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

}  // namespace

Row ReadRow(std::string_view line) {
  Row row;
  if (std::ssize(line) > limits::kMaxBatchLineBytes) {
    return Blame(row, "line_too_long",
                 fmt::format("the line has {} bytes, at most {} are allowed", line.size(),
                             limits::kMaxBatchLineBytes));
  }
  const Result<Json> json = Json::Parse(line, kRowLimits);
  if (!json) return Blame(row, "invalid_json_line", std::string(json.error().message()));
  const JsonValue root = json->root();
  if (!root.is_object()) {
    return Blame(row, "invalid_json_line",
                 fmt::format("a row must be an object, not {}", NameOf(root.kind())));
  }
  const JsonValue custom_id = root.Find("custom_id");
  if (!custom_id.is_string() || custom_id.AsString().empty()) {
    return Blame(row, "missing_custom_id", "custom_id must be a string that is not empty");
  }
  if (std::ssize(custom_id.AsString()) > limits::kMaxCustomIdBytes) {
    return Blame(row, "invalid_custom_id",
                 fmt::format("custom_id has {} bytes, at most {} are allowed",
                             custom_id.AsString().size(), limits::kMaxCustomIdBytes));
  }
  row.custom_id = custom_id.AsString();
  const JsonValue method = root.Find("method");
  if (!method.is_string() || method.AsString() != "POST") {
    return Blame(row, "invalid_method", "method must be \"POST\"");
  }
  const JsonValue url = root.Find("url");
  row.dialect = url.is_string() ? FindDialect(url.AsString()) : nullptr;
  if (row.dialect == nullptr) {
    return Blame(row, "invalid_url",
                 fmt::format("url must be one of {}, not {}", KnownUrls(),
                             url.exists() ? Shown(url) : "absent"));
  }
  const JsonValue body = root.Find("body");
  if (!body.exists()) return Blame(row, "missing_body", "body must be the request, an object");
  row.body = body.ToText();
  return row;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

RowSeeds SeedsOf(std::string_view line) {
  const std::array<std::byte, 32> digest = Sha256(std::as_bytes(std::span(line)));
  RowSeeds seeds;
  std::memcpy(&seeds.sampling, digest.data(), sizeof(seeds.sampling));
  std::memcpy(&seeds.call_ids, digest.data() + sizeof(seeds.sampling), sizeof(seeds.call_ids));
  return seeds;
}

}  // namespace sluice::batch
