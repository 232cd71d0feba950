#include "codec/dialect/service_tier.h"

#include <algorithm>

namespace sluice::codec {

std::optional<wire::RequestClass> ClassAsked(const JsonValue& value, wire::RequestClass highest) {
  if (!value.exists() || value.is_null()) return std::nullopt;
  wire::RequestClass asked = highest;
  if (value.is_string() && value.AsString() == "priority") asked = wire::RequestClass::kInteractive;
  if (value.is_string() && value.AsString() == "flex") asked = wire::RequestClass::kBulk;
  return std::max(asked, highest);  // the higher a class, the smaller its number
}

std::string_view TierName(wire::RequestClass request_class) {
  switch (request_class) {
    case wire::RequestClass::kInteractive:
      return "priority";
    case wire::RequestClass::kDefault:
      return "default";
    case wire::RequestClass::kBulk:
      return "flex";
  }
  return "default";
}

}  // namespace sluice::codec
