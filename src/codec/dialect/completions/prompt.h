// The prompt of a Completions request: a text, or token ids. Pure functions.

#pragma once

#include <cstdint>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec::completions {

// `value` is what `prompt` holds: a string, a list of ids, or a list of exactly one of them.
Status ReadPrompt(const JsonValue& value, int32_t n_vocabulary, RawPrompt& prompt);

}  // namespace sluice::codec::completions
