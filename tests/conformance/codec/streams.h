// Answers as the golden cases write them: without ids and times, adjacent deltas of one kind
// joined.

#pragma once

#include <string>
#include <vector>

#include "conformance/codec/cases.h"

namespace sluice::conformance {

// The events of an event stream; what cannot be read is an event {"broken": …}.
Json EventsOf(const std::string& api, const std::string& stream);

// The whole answer.
Json ResponseOf(const std::string& api, const std::string& body);

// All other fields of a Responses object.
Json ObjectOf(const std::string& body);

// {content, reasoning, calls, finish}: what an answer says, whatever API said it.
Json NeutralOf(const std::string& api, const Json& response);

}  // namespace sluice::conformance
