#include "codec/strict_schema.h"

#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"

namespace sluice::codec {
namespace {

// Keywords that are kept as they are, in the order in which they are written, by the type of the
// schema they stand in.
constexpr std::string_view kOfString[] = {"description", "pattern", "format", "enum"};
constexpr std::string_view kOfNumber[] = {"description",      "const",     "default",
                                          "minimum",          "maximum",   "exclusiveMinimum",
                                          "exclusiveMaximum", "multipleOf"};

// What is still to be written: text, or a schema if it exists.
struct Piece {
  std::string text;
  JsonValue schema;
};

class Normalizer {
 public:
  std::string Run(const JsonValue& schema) {
    open_.push_back({.text = {}, .schema = schema});
    while (!open_.empty()) {
      const Piece piece = std::move(open_.back());
      open_.pop_back();
      if (!piece.schema.exists()) {
        out_ += piece.text;
        continue;
      }
      pieces_.clear();
      AddSchema(piece.schema);
      open_.insert(open_.end(), std::make_move_iterator(pieces_.rbegin()),
                   std::make_move_iterator(pieces_.rend()));
    }
    return std::move(out_);
  }

 private:
  void Add(std::string text) { pieces_.push_back({.text = std::move(text), .schema = {}}); }
  void AddNode(const JsonValue& schema) { pieces_.push_back({.text = {}, .schema = schema}); }

  void AddKey(std::string_view key) {
    std::string text = needs_comma_ ? ",\"" : "\"";
    needs_comma_ = true;
    AppendJsonEscaped(text, key);
    Add(text + "\":");
  }

  void AddMap(const JsonValue& map) {
    std::string open = "{";
    for (const JsonMember member : map.members()) {
      open += '"';
      AppendJsonEscaped(open, member.key);
      Add(open + "\":");
      AddNode(member.value);
      open = ",";
    }
    Add(map.size() == 0 ? "{}" : "}");
  }

  void AddRequired(const JsonValue& properties) {
    std::string names;
    JsonWriter w(names);
    w.Array();
    for (const JsonMember member : properties.members()) w.String(member.key);
    w.EndArray();
    Add(std::move(names));
  }

  // What a schema is tells its type, else its branches, else its reference.
  void AddSchema(const JsonValue& schema) {
    if (!schema.is_object()) return Add(schema.ToText());
    needs_comma_ = false;
    Add("{");
    const JsonValue type = schema.Find("type");
    const std::string_view name = type.is_string() ? type.AsString() : std::string_view();
    if (type.exists()) {
      AddPlain(schema, "type");
    } else if (schema.Find("anyOf").exists()) {
      AddBranches(schema.Find("anyOf"));
    } else {
      AddPlain(schema, "$ref");
      return Add("}");
    }
    if (name == "object") {
      AddObject(schema);
    } else if (name == "string") {
      for (const std::string_view key : kOfString) AddPlain(schema, key);
    } else if (name == "integer" || name == "number") {
      for (const std::string_view key : kOfNumber) AddPlain(schema, key);
    } else {
      if (name == "array" && schema.Find("items").exists()) {
        AddKey("items");
        AddNode(schema.Find("items"));
      }
      AddPlain(schema, "description");
    }
    Add("}");
  }

  void AddObject(const JsonValue& schema) {
    const JsonValue properties = schema.Find("properties");
    AddKey("properties");
    AddMap(properties);
    AddKey("additionalProperties");
    Add("false");
    AddKey("required");
    AddRequired(properties);
    AddPlain(schema, "description");
    if (!schema.Find("$def").exists()) return;
    AddKey("$def");
    AddMap(schema.Find("$def"));
  }

  void AddBranches(const JsonValue& branches) {
    AddKey("anyOf");
    std::string open = "[";
    for (const JsonValue branch : branches.elements()) {
      Add(std::exchange(open, ","));
      AddNode(branch);
    }
    Add(branches.size() == 0 ? "[]" : "]");
  }

  void AddPlain(const JsonValue& schema, std::string_view key) {
    const JsonValue value = schema.Find(key);
    if (!value.exists()) return;
    AddKey(key);
    Add(value.ToText());
  }

  std::string out_;
  std::vector<Piece> open_;    // the next one last
  std::vector<Piece> pieces_;  // of one schema
  bool needs_comma_ = false;
};

}  // namespace

std::string NormalizeStrictSchema(const JsonValue& schema) { return Normalizer().Run(schema); }

std::string EmptyStrictSchema() {
  return R"({"type":"object","properties":{},"additionalProperties":false,"required":[]})";
}

}  // namespace sluice::codec
