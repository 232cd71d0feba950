#include "codec/dialect/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "codec/dialect/field.h"

namespace sluice::codec {
namespace {

// What a keyword's value must be.
enum class Shape : uint8_t {
  kSchema,
  kSchemas,
  kSchemaOrSchemas,
  kSchemaMap,
  kCount,
  kNumber,
  kString,
  kNames,
  kArray,
  kBool
};

struct Keyword {
  std::string_view name;
  Shape shape;
};

// The keywords of JSON Schema 2020-12 and its ancestors whose shape can be wrong; `$def` is
// DeepSeek's. Others are annotations.
constexpr Keyword kKeywords[] = {
    {"properties", Shape::kSchemaMap},
    {"patternProperties", Shape::kSchemaMap},
    {"$defs", Shape::kSchemaMap},
    {"$def", Shape::kSchemaMap},
    {"definitions", Shape::kSchemaMap},
    {"dependentSchemas", Shape::kSchemaMap},
    {"items", Shape::kSchemaOrSchemas},
    {"prefixItems", Shape::kSchemas},
    {"anyOf", Shape::kSchemas},
    {"oneOf", Shape::kSchemas},
    {"allOf", Shape::kSchemas},
    {"additionalProperties", Shape::kSchema},
    {"propertyNames", Shape::kSchema},
    {"contains", Shape::kSchema},
    {"not", Shape::kSchema},
    {"if", Shape::kSchema},
    {"then", Shape::kSchema},
    {"else", Shape::kSchema},
    {"required", Shape::kNames},
    {"enum", Shape::kArray},
    {"pattern", Shape::kString},
    {"format", Shape::kString},
    {"$ref", Shape::kString},
    {"uniqueItems", Shape::kBool},
    {"minLength", Shape::kCount},
    {"maxLength", Shape::kCount},
    {"minItems", Shape::kCount},
    {"maxItems", Shape::kCount},
    {"minProperties", Shape::kCount},
    {"maxProperties", Shape::kCount},
    {"minimum", Shape::kNumber},
    {"maximum", Shape::kNumber},
    {"multipleOf", Shape::kNumber},
};

constexpr std::string_view kTypes[] = {"array",  "boolean", "integer", "null",
                                       "number", "object",  "string"};

bool IsTypeName(const JsonValue& value) {
  return value.is_string() && std::ranges::find(kTypes, value.AsString()) != std::end(kTypes);
}

Status Wrong(std::string_view keyword, std::string_view allowed, const JsonValue& got) {
  return Status::Invalid(fmt::format("`{}` must be {}, not {}", keyword, allowed, Describe(got)));
}

Status CheckType(const JsonValue& type) {
  constexpr std::string_view kAllowed =
      "one of array, boolean, integer, null, number, object, string, or a list of them";
  if (!type.is_array()) return IsTypeName(type) ? Status::Ok() : Wrong("type", kAllowed, type);
  for (JsonValue name : type.elements()) {
    if (!IsTypeName(name)) return Wrong("type", kAllowed, name);
  }
  return Status::Ok();
}

Status CheckNames(std::string_view keyword, const JsonValue& names) {
  if (!names.is_array()) return Wrong(keyword, "an array of names", names);
  for (JsonValue name : names.elements()) {
    if (!name.is_string()) return Wrong(keyword, "an array of names", name);
  }
  return Status::Ok();
}

// Checks one keyword and lists the schemas in it.
Status CheckKeyword(const Keyword& keyword, const JsonValue& value, std::vector<JsonValue>& open) {
  const bool is_count =
      (value.is(JsonKind::kInt) && value.AsInt64() >= 0) || value.is(JsonKind::kUint);
  switch (keyword.shape) {
    case Shape::kSchema:
      open.push_back(value);
      return Status::Ok();
    case Shape::kSchemaOrSchemas:
      if (!value.is_array()) {
        open.push_back(value);
        return Status::Ok();
      }
      [[fallthrough]];
    case Shape::kSchemas:
      if (!value.is_array()) return Wrong(keyword.name, "an array of schemas", value);
      for (JsonValue schema : value.elements()) open.push_back(schema);
      return Status::Ok();
    case Shape::kSchemaMap:
      if (!value.is_object()) return Wrong(keyword.name, "an object of schemas", value);
      for (JsonMember member : value.members()) open.push_back(member.value);
      return Status::Ok();
    case Shape::kCount:
      return is_count ? Status::Ok() : Wrong(keyword.name, "a whole number, not negative", value);
    case Shape::kNumber:
      return value.is_number() ? Status::Ok() : Wrong(keyword.name, "a number", value);
    case Shape::kString:
      return value.is_string() ? Status::Ok() : Wrong(keyword.name, "a string", value);
    case Shape::kNames:
      return CheckNames(keyword.name, value);
    case Shape::kArray:
      return value.is_array() ? Status::Ok() : Wrong(keyword.name, "an array", value);
    case Shape::kBool:
      return value.is_bool() ? Status::Ok() : Wrong(keyword.name, "a boolean", value);
  }
  return Status::Ok();
}

bool HasType(const JsonValue& schema, std::string_view name) {
  JsonValue type = schema.Find("type");
  if (type.is_string()) return type.AsString() == name;
  for (JsonValue element : type.elements()) {
    if (element.is_string() && element.AsString() == name) return true;
  }
  return false;
}

Status CheckStrictObject(const JsonValue& schema, bool may_be_empty) {
  JsonValue properties = schema.Find("properties");
  if (properties.size() == 0 && !may_be_empty)
    return Status::Invalid("An object with no properties is not allowed.");
  JsonValue additional = schema.Find("additionalProperties");
  if (additional.exists() && !(additional.is_bool() && !additional.AsBool())) {
    return Status::Invalid("additionalProperties should not be true");
  }
  JsonValue required = schema.Find("required");
  if (!required.exists()) return Status::Ok();
  std::set<std::string_view> names;
  for (JsonMember property : properties.members()) names.insert(property.key);
  std::set<std::string_view> seen;
  for (JsonValue element : required.elements()) {
    std::string_view name = element.AsString();
    if (!names.contains(name)) {
      return Status::Invalid(
          fmt::format("Required property '{}' not found in object", Shorten(name)));
    }
    if (!seen.insert(name).second)
      return Status::Invalid(fmt::format("Duplicate required property '{}'", Shorten(name)));
  }
  if (seen.size() == names.size()) return Status::Ok();
  return Status::Invalid("Required properties must match all properties in the object");
}

// A list of types names scalars only: of the others strict mode could not keep what they hold.
Status CheckStrictType(const JsonValue& type) {
  constexpr std::string_view kScalars[] = {"string", "number", "integer", "boolean", "null"};
  for (JsonValue name : type.elements()) {
    if (name.is_string() && std::ranges::find(kScalars, name.AsString()) != std::end(kScalars))
      continue;
    return Wrong("type", "one type or a list of string, number, integer, boolean, null", name);
  }
  return Status::Ok();
}

// A node of a strict schema besides its children.
Status CheckStrictNode(const JsonValue& schema, const StrictParams& params, bool is_top) {
  if (!schema.is_object())
    return Status::Invalid(
        fmt::format("a strict schema must be an object, not {}", Describe(schema)));
  if (!schema.Find("type") && !schema.Find("anyOf") && !schema.Find("$ref")) {
    return Status::Invalid("one of `type`, `anyOf`, `$ref` field is required");
  }
  if (HasType(schema, "object"))
    SLUICE_TRY(CheckStrictObject(schema, is_top && params.top_may_be_empty));
  if (HasType(schema, "array") && !schema.Find("items"))
    return Status::Invalid("an array without `items` is not allowed");
  SLUICE_TRY(CheckStrictType(schema.Find("type")));
  constexpr std::string_view kFormats[] = {"email", "hostname", "ipv4", "ipv6", "uuid"};
  JsonValue format = schema.Find("format");
  if (format.is_string() && std::ranges::find(kFormats, format.AsString()) == std::end(kFormats)) {
    return Wrong("format", "one of email, hostname, ipv4, ipv6, uuid", format);
  }
  return Status::Ok();
}

}  // namespace

Status CheckJsonSchema(const JsonValue& schema) {
  std::vector<JsonValue> open = {schema};
  while (!open.empty()) {
    JsonValue node = open.back();
    open.pop_back();
    if (node.is_bool()) continue;
    if (!node.is_object())
      return Status::Invalid(
          fmt::format("a schema must be an object or a boolean, not {}", Describe(node)));
    for (JsonMember member : node.members()) {
      if (member.key == "type") {
        SLUICE_TRY(CheckType(member.value));
        continue;
      }
      const Keyword* keyword = std::ranges::find(kKeywords, member.key, &Keyword::name);
      if (keyword == std::end(kKeywords)) continue;
      SLUICE_TRY(CheckKeyword(*keyword, member.value, open));
      // Nothing is fetched: a reference must lead into the schema itself.
      if (member.key == "$ref" && !member.value.AsString().starts_with('#')) {
        return Wrong("$ref", "a reference into the same schema, beginning with #", member.value);
      }
    }
  }
  return Status::Ok();
}

Status CheckStrictSchema(const JsonValue& schema, const StrictParams& params) {
  JsonValue type = schema.Find("type");
  if (!type.is_string() || type.AsString() != "object") {
    return Status::Invalid(fmt::format("The top level of the {} must be an object.", params.what));
  }
  std::vector<JsonValue> open = {schema};
  for (bool is_top = true; !open.empty(); is_top = false) {
    JsonValue node = open.back();
    open.pop_back();
    SLUICE_TRY(CheckStrictNode(node, params, is_top));
    for (std::string_view map : {"properties", "$def", "$defs"}) {
      for (JsonMember member : node.Find(map).members()) open.push_back(member.value);
    }
    JsonValue items = node.Find("items");
    if (items.exists() && !items.is_array()) open.push_back(items);
    for (JsonValue branch : node.Find("anyOf").elements()) open.push_back(branch);
  }
  return Status::Ok();
}

}  // namespace sluice::codec
