// Render: the prompt of a conversation as the chat template of the family has it. Pure functions;
// they run on the prep pool.

#pragma once

#include <string>

#include "codec/conversation.h"
#include "codec/format/chatml/format.h"
#include "codec/format/prompt.h"

namespace sluice::codec::chatml {

// Codec's Format::Render and Format::CallsOpening.
Prompt Render(const Conversation& conversation, const Format& format);
std::string CallsOpening(const Conversation& conversation, Family family);

}  // namespace sluice::codec::chatml
