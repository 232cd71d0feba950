// Golden cases of the codec (tests/golden/recipe/README.md) and what all checks of them share.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/dialect.h"
#include "codec/format/deepseek_v41/format.h"

namespace sluice::conformance {

using Json = nlohmann::ordered_json;

enum class ProfileName { kReference, kDefault };
const char* NameOf(ProfileName profile);

struct Suite {
  const codec::deepseek_v41::Format& format;
  ProfileName profile;
};

// What differs between expected and got, as one line; empty: nothing.
using Difference = std::string;

// "`what` is GOT, not EXPECTED", both shortened around the first difference.
Difference DifferenceOf(const std::string& what, const Json& expected, const Json& got);

// Null: no dialect of that name is served.
const codec::Dialect* DialectOf(const Json& c);
std::string BodyOf(const Json& c);
codec::Profile ProfileOf(const Json& c, ProfileName profile);
codec::ModelCard CardOf(const Json& c);

// Prepares `body` as the case's options say.
Result<codec::Prepared> PrepareBody(const Json& c, const std::string& body, const Suite& suite);

// One per kind of case.
Difference CheckEncode(const Json& c, const Suite& suite);
Difference CheckReject(const Json& c, const Suite& suite);
Difference CheckDecode(const Json& c, const Suite& suite);
Difference CheckTokenizer(const Json& c, const Suite& suite);
Difference CheckSweep(const Json& c, const Suite& suite);

}  // namespace sluice::conformance
