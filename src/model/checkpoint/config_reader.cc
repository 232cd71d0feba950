#include "model/checkpoint/config_reader.h"

#include <fmt/format.h>

#include "model/checkpoint/untrusted_text.h"

namespace sluice::model {
namespace {

JsonValue FindPath(JsonValue object, std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return object.Find(path);
  return object.Find(path.substr(0, dot)).Find(path.substr(dot + 1));
}

// 10000 and 10000.0 are the same setting.
bool IsSame(JsonValue a, JsonValue b) {
  if (a.is_number() && b.is_number()) return a.AsDouble() == b.AsDouble();
  return a.ToText() == b.ToText();
}

Status Refuse(std::string_view name, JsonValue value, std::string_view allowed) {
  return Status::InvalidField(
      std::string(name),
      fmt::format("config.json: {} is {}; it must be {}", name, Shorten(value.ToText()), allowed));
}

Status Missing(FieldName field) {
  const std::string alias = field.alias == nullptr ? "" : fmt::format(" (or {})", field.alias);
  return Status::InvalidField(field.name,
                              fmt::format("config.json: {}{} is missing", field.name, alias));
}

}  // namespace

std::vector<ConfigReader::Found> ConfigReader::FindAll(FieldName field) const {
  std::vector<Found> found;
  for (const JsonValue scope : {text_, root_}) {
    for (const char* name : {field.name, field.alias}) {
      if (name == nullptr) continue;
      // An alias of a member may stand beside the object that has it.
      if (const JsonValue value = FindPath(scope, name)) found.push_back({name, value});
    }
  }
  return found;
}

Result<ConfigReader::Found> ConfigReader::Find(FieldName field) const {
  const std::vector<Found> found = FindAll(field);
  if (found.empty()) return Missing(field);
  for (const Found& other : found) {
    if (IsSame(found[0].value, other.value)) continue;
    return Status::InvalidField(
        found[0].name, fmt::format("config.json: {} is {} and {} is {}; they mean the same and "
                                   "must be equal",
                                   found[0].name, Shorten(found[0].value.ToText()), other.name,
                                   Shorten(other.value.ToText())));
  }
  return found[0];
}

bool ConfigReader::Has(FieldName field) const { return !FindAll(field).empty(); }

bool ConfigReader::IsNull(FieldName field) const {
  const std::vector<Found> found = FindAll(field);
  return !found.empty() && found[0].value.is_null();
}

Result<int64_t> ConfigReader::Int(FieldName field, Range range) const {
  SLUICE_TRY(const Found found, Find(field));
  const JsonValue value = found.value;
  if (!value.is(JsonKind::kInt) || value.AsInt64() < range.min || value.AsInt64() > range.max) {
    return Refuse(found.name, value,
                  fmt::format("a whole number from {} to {}", range.min, range.max));
  }
  return value.AsInt64();
}

Result<double> ConfigReader::Double(FieldName field, double min, double max) const {
  SLUICE_TRY(const Found found, Find(field));
  const JsonValue value = found.value;
  if (!value.is_number() || !(value.AsDouble() >= min && value.AsDouble() <= max)) {
    return Refuse(found.name, value, fmt::format("a number from {} to {}", min, max));
  }
  return value.AsDouble();
}

Result<bool> ConfigReader::Bool(FieldName field) const {
  SLUICE_TRY(const Found found, Find(field));
  if (!found.value.is_bool()) return Refuse(found.name, found.value, "true or false");
  return found.value.AsBool();
}

Result<std::vector<int64_t>> ConfigReader::List(FieldName field, Range range) const {
  SLUICE_TRY(const Found found, Find(field));
  bool is_list = found.value.is_array() && found.value.size() <= kMaxList;
  std::vector<int64_t> values;
  for (JsonValue value : found.value.elements()) {
    is_list = is_list && value.is(JsonKind::kInt) && value.AsInt64() >= range.min &&
              value.AsInt64() <= range.max;
    if (!is_list) break;
    values.push_back(value.AsInt64());
  }
  if (is_list) return values;
  return Refuse(found.name, found.value,
                fmt::format("a list of at most {} whole numbers from {} to {}", kMaxList, range.min,
                            range.max));
}

Status ConfigReader::Expect(FieldName field, std::string_view allowed, bool is_required) const {
  const std::vector<Found> all = FindAll(field);
  if (all.empty()) return is_required ? Missing(field) : Status::Ok();
  for (const Found& found : all) {
    constexpr std::string_view kOr = " or ";
    const std::string text = found.value.ToText();
    bool is_allowed = false;
    for (std::string_view rest = allowed; !rest.empty();) {
      const size_t end = std::min(rest.find(kOr), rest.size());
      is_allowed = is_allowed || rest.substr(0, end) == text;
      rest.remove_prefix(std::min(end + kOr.size(), rest.size()));
    }
    if (!is_allowed) {
      Status status = Refuse(found.name, found.value, allowed);
      return Status(ErrorCode::kUnsupported, std::string(status.message())).set_param(found.name);
    }
  }
  return Status::Ok();
}

}  // namespace sluice::model
