// The custom tool `apply_patch` as the model was trained to see it: fixed texts of the published
// codec package.

#pragma once

#include <string_view>

namespace sluice::codec::responses {

extern const std::string_view kApplyPatchDescription;
extern const std::string_view kApplyPatchParameters;  // JSON schema

}  // namespace sluice::codec::responses
