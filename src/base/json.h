// Json: a parsed JSON text, read-only, members in document order.
//
// The reader of everything that arrives as JSON: request bodies, script lines. Rules (spec
// recipe.md §7.5): UTF-8 only, no raw control characters in strings, no trailing text, numbers in
// double range, of duplicate keys the last value at the position of the first, lone surrogate
// escapes read as U+FFFD. Nothing here recurses on input depth.
//
// Thread-compatible. JsonValue is a view: it must not outlive its Json.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"

namespace sluice {

enum class JsonKind : uint8_t { kNull, kBool, kInt, kUint, kDouble, kString, kArray, kObject };

// "a string", "an array": for error messages.
const char* NameOf(JsonKind kind);

class Json;

class JsonValue {
 public:
  JsonValue() = default;  // absent: Find() of a key that is not there

  bool exists() const { return doc_ != nullptr; }
  explicit operator bool() const { return exists(); }
  JsonKind kind() const;  // must exist
  bool is(JsonKind k) const { return exists() && kind() == k; }
  bool is_null() const { return is(JsonKind::kNull); }
  bool is_string() const { return is(JsonKind::kString); }
  bool is_array() const { return is(JsonKind::kArray); }
  bool is_object() const { return is(JsonKind::kObject); }
  bool is_bool() const { return is(JsonKind::kBool); }
  bool is_integer() const { return is(JsonKind::kInt) || is(JsonKind::kUint); }
  bool is_number() const { return is_integer() || is(JsonKind::kDouble); }

  // Each must be of its kind; AsDouble takes any number, AsInt64 a kInt, AsUint64 a kUint (above
  // INT64_MAX).
  bool AsBool() const;
  int64_t AsInt64() const;
  uint64_t AsUint64() const;
  double AsDouble() const;
  std::string_view AsString() const;

  // Elements of an array, members of an object; 0 for everything else.
  int32_t size() const;
  JsonValue Find(std::string_view key) const;  // absent unless an object with this key

  // for (JsonMember m : value.members()), for (JsonValue e : value.elements()): empty for other
  // kinds.
  class MemberRange members() const;
  class ElementRange elements() const;

  // Compact text of this value: no spaces, members in document order, numbers shortest round trip.
  std::string ToText() const;

 private:
  friend class Json;
  friend class MemberIterator;
  friend class ElementIterator;
  JsonValue(const Json* doc, uint32_t node) : doc_(doc), node_(node) {}
  uint64_t Payload(JsonKind expected) const;
  void WriteScalar(class JsonWriter& writer) const;

  const Json* doc_ = nullptr;
  uint32_t node_ = 0;
};

struct JsonMember {
  std::string_view key;
  JsonValue value;
};

class Json {
 public:
  struct Limits {
    int64_t text_bytes = limits::kMaxJsonBytes;
    int32_t depth = limits::kMaxJsonDepth;    // nested containers
    int64_t values = limits::kMaxJsonValues;  // bounds memory at a multiple of the text
  };

  // kInvalidArgument with a message that says what is wrong and where (byte offset), never a crash.
  static Result<Json> Parse(std::string_view text, const Limits& limits);
  static Result<Json> Parse(std::string_view text) { return Parse(text, Limits{}); }

  Json(Json&&) noexcept;
  Json& operator=(Json&&) noexcept;
  ~Json();

  JsonValue root() const { return JsonValue(this, 0); }

 private:
  friend class JsonValue;
  friend class MemberIterator;
  friend class ElementIterator;
  struct Document;
  explicit Json(std::unique_ptr<Document> document);
  std::unique_ptr<Document> document_;
};

// The iterators below exist for range-for only.
class ElementIterator {
 public:
  ElementIterator(const Json* doc, uint32_t node) : doc_(doc), node_(node) {}
  JsonValue operator*() const { return JsonValue(doc_, node_); }
  ElementIterator& operator++();
  bool operator!=(const ElementIterator& other) const { return node_ != other.node_; }

 private:
  const Json* doc_;
  uint32_t node_;
};

class ElementRange {
 public:
  ElementRange(ElementIterator begin, ElementIterator end) : begin_(begin), end_(end) {}
  ElementIterator begin() const { return begin_; }
  ElementIterator end() const { return end_; }

 private:
  ElementIterator begin_, end_;
};

class MemberIterator {
 public:
  MemberIterator(const Json* doc, uint32_t node) : doc_(doc), node_(node) {}
  JsonMember operator*() const;
  MemberIterator& operator++();
  bool operator!=(const MemberIterator& other) const { return node_ != other.node_; }

 private:
  const Json* doc_;
  uint32_t node_;
};

class MemberRange {
 public:
  MemberRange(MemberIterator begin, MemberIterator end) : begin_(begin), end_(end) {}
  MemberIterator begin() const { return begin_; }
  MemberIterator end() const { return end_; }

 private:
  MemberIterator begin_, end_;
};

}  // namespace sluice
