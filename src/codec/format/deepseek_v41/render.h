// Render: the prompt of a conversation (spec recipe.md §3). Pure functions; they run on the prep
// pool.

#pragma once

#include "codec/conversation.h"
#include "codec/format/prompt.h"
#include "codec/profile.h"

namespace sluice::codec::deepseek_v41 {

// The prompt opens the calls block for the model: a call is required, and nothing is thought first.
bool OpensCalls(const Conversation& conversation);

// The conversation outlives the prompt, whose images belong to it.
Prompt Render(const Conversation& conversation, const Profile& profile);

}  // namespace sluice::codec::deepseek_v41
