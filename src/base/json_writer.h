// JsonWriter: appends compact JSON to a string, left to right, without a tree. The only place that
// escapes text.
//
//   JsonWriter w(out);
//   w.Object();  w.Key("id").String(id);  w.Key("choices").Array();  w.EndArray();  w.EndObject();
//
// Commas are placed by the writer. Strings must be UTF-8; an invalid byte is written as U+FFFD, so
// that the output is always valid JSON. Thread-compatible; allocates only through `out`.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& Object();
  JsonWriter& EndObject();
  JsonWriter& Array();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);  // must be followed by one value

  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Double(double value);  // shortest round trip; must be finite
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);  // one finished JSON value

 private:
  void BeforeValue();
  std::string& out_;
  bool needs_comma_ = false;
};

// Appends `text` as the inside of a JSON string (no quotes).
void AppendJsonEscaped(std::string& out, std::string_view text);

}  // namespace sluice
