#include "codec/format/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/containers.h"
#include "base/json_writer.h"

namespace sluice::codec {
namespace {

// Shortest digits that read back the same; fmt changes to exponents where Python does.
void AppendDouble(double value, std::string& out) {
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void AppendString(std::string_view text, std::string& out) {
  out += '"';
  AppendJsonEscaped(out, text);
  out += '"';
}

void AppendScalar(const JsonValue& value, std::string& out) {
  switch (value.kind()) {
    case JsonKind::kNull:
      out += "null";
      return;
    case JsonKind::kBool:
      out += value.AsBool() ? "true" : "false";
      return;
    case JsonKind::kInt:
      fmt::format_to(std::back_inserter(out), "{}", value.AsInt64());
      return;
    case JsonKind::kUint:
      fmt::format_to(std::back_inserter(out), "{}", value.AsUint64());
      return;
    case JsonKind::kDouble:
      return AppendDouble(value.AsDouble(), out);
    case JsonKind::kString:
      return AppendString(value.AsString(), out);
    case JsonKind::kArray:
    case JsonKind::kObject:
      break;
  }
}

// A container whose values are being written: the next one, and how many are left.
struct Open {
  bool is_object;
  MemberIterator member;
  ElementIterator element;
  int32_t n_left;
};

Open OpenOf(const JsonValue& value, std::string& out) {
  out += value.is_object() ? '{' : '[';
  return {.is_object = value.is_object(),
          .member = value.members().begin(),
          .element = value.elements().begin(),
          .n_left = value.size()};
}

}  // namespace

void AppendJsonText(const JsonValue& value, std::string& out) {
  if (!value.is_object() && !value.is_array()) return AppendScalar(value, out);
  SmallVec<Open, 16> open;
  open.push_back(OpenOf(value, out));
  while (!open.empty()) {
    Open& top = open.back();
    if (top.n_left == 0) {
      out += top.is_object ? '}' : ']';
      open.pop_back();
      if (!open.empty() && open.back().n_left > 0) out += ", ";
      continue;
    }
    --top.n_left;
    JsonValue next;
    if (top.is_object) {
      const JsonMember member = *top.member;
      AppendString(member.key, out);
      out += ": ";
      next = member.value;
      ++top.member;
    } else {
      next = *top.element;
      ++top.element;
    }
    if (next.is_object() || next.is_array()) {
      open.push_back(OpenOf(next, out));
      continue;
    }
    AppendScalar(next, out);
    if (top.n_left > 0) out += ", ";
  }
}

}  // namespace sluice::codec
