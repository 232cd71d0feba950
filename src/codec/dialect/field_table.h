// A request body against a table of its documented fields, for all dialects.

#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/dialect/field.h"
#include "codec/dialect/request_check.h"

namespace sluice::codec {

// A documented field of a Body. No `read`: accepted, no effect here.
template <typename Body>
struct Field {
  std::string_view name;
  Status (*read)(const JsonValue& value, Body& body);
};

// Calls `read(field, value)` for each member of `root` that `fields`, sorted by name, holds; null
// is the same as absent. Others are refused if `strict`, else listed in `unknown`.
template <typename Entry, size_t kCount, typename Read>
Status ReadTable(const JsonValue& root,
                 const Entry (&fields)[kCount],
                 bool strict,
                 std::vector<std::string>& unknown,
                 Read read) {
  if (!root.is_object()) return NoObject(root);
  for (JsonMember member : root.members()) {
    const Entry* field = std::ranges::lower_bound(fields, member.key, {}, &Entry::name);
    if (field == std::end(fields) || field->name != member.key) {
      SLUICE_TRY(TakeUnknownField(member.key, strict, unknown));
    } else if (!member.value.is_null()) {
      SLUICE_TRY(read(*field, member.value));
    }
  }
  return Status::Ok();
}

template <typename Body, size_t kCount>
Status ReadFields(const JsonValue& root,
                  const Field<Body> (&fields)[kCount],
                  bool strict,
                  Body& body) {
  return ReadTable(root, fields, strict, body.unknown_fields,
                   [&](const Field<Body>& field, const JsonValue& value) {
                     return field.read == nullptr ? Status::Ok() : field.read(value, body);
                   });
}

}  // namespace sluice::codec
