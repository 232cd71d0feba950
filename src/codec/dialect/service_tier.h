// OpenAI's `service_tier`: which class of requests one asks for. Pure functions; thread-safe.

#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "wire/request.h"

namespace sluice::codec {

// The class that `value`, the field as it came, asks for: "priority" and "flex" one of their own,
// "auto", "default" and what we do not know that of the key. Never one above `highest`, the key's.
// Absent if the field is.
std::optional<wire::RequestClass> ClassAsked(const JsonValue& value, wire::RequestClass highest);

// What an answer says that it was: "priority", "default" or "flex".
std::string_view TierName(wire::RequestClass request_class);

}  // namespace sluice::codec
