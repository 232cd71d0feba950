#include "codec/visible_turn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/sha256.h"
#include "codec/json_escape.h"
#include "codec/trim.h"

namespace sluice::codec {
namespace {

// Doubles below it hold every integer exactly: JavaScript prints 2.0 as 2.
constexpr double kExactIntegers = 9'007'199'254'740'992.0;

std::string_view TrimmedReasoning(const Message& turn) {
  return turn.reasoning ? Trim(*turn.reasoning) : std::string_view();
}

void WriteNumber(const JsonValue& value, JsonWriter& w) {
  if (value.is(JsonKind::kInt)) {
    w.Int(value.AsInt64());
  } else if (value.is(JsonKind::kUint)) {
    w.Uint(value.AsUint64());
  } else if (const double number = value.AsDouble();
             std::abs(number) < kExactIntegers && number == std::trunc(number)) {
    w.Int(static_cast<int64_t>(number));
  } else {
    w.Double(number);
  }
}

// As deep as the reader allows: limits::kMaxJsonDepth.
void WriteCanonical(const JsonValue& value, JsonWriter& w) {
  switch (value.kind()) {
    case JsonKind::kNull:
      w.Null();
      return;
    case JsonKind::kBool:
      w.Bool(value.AsBool());
      return;
    case JsonKind::kInt:
    case JsonKind::kUint:
    case JsonKind::kDouble:
      return WriteNumber(value, w);
    case JsonKind::kString:
      w.String(value.AsString());
      return;
    case JsonKind::kArray:
      w.Array();
      for (const JsonValue element : value.elements()) WriteCanonical(element, w);
      w.EndArray();
      return;
    case JsonKind::kObject: {
      std::vector<JsonMember> members;
      members.reserve(static_cast<size_t>(value.size()));
      for (const JsonMember member : value.members()) members.push_back(member);
      std::ranges::sort(members, {}, &JsonMember::key);
      w.Object();
      for (const JsonMember& member : members) {
        w.Key(member.key);
        WriteCanonical(member.value, w);
      }
      w.EndObject();
      return;
    }
  }
}

// The renderer's idea of arguments (spec recipe.md §3.7).
void WriteArguments(std::string_view arguments, JsonWriter& w) {
  const Result<Json> json = Json::Parse(arguments);
  if (json && json->root().is_object() && !HasLoneSurrogate(arguments)) {
    WriteCanonical(json->root(), w);
  } else {
    w.String(arguments);
  }
}

Digest DigestOf(std::string_view text) { return Sha256(std::as_bytes(std::span(text))); }

}  // namespace

Digest VisibleDigest(const Message& turn) {
  std::string text;
  JsonWriter w(text);
  w.Array().String(Trim(turn.text));
  for (const ToolCall& call : turn.calls) {
    w.String(call.name);
    WriteArguments(call.arguments, w);
  }
  w.EndArray();
  return DigestOf(text);
}

Digest ReasoningDigest(const Message& turn) { return DigestOf(TrimmedReasoning(turn)); }

bool HasReasoning(const Message& turn) { return !TrimmedReasoning(turn).empty(); }

std::string CanonicalArguments(std::string_view arguments) {
  std::string text;
  JsonWriter w(text);
  WriteArguments(arguments, w);
  return text;
}

}  // namespace sluice::codec
