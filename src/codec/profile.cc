#include "codec/profile.h"

namespace sluice::codec {
namespace {

constexpr ProfileSwitch kSwitches[] = {
    {"sampling-policy",
     {"request", "official"},
     &Profile::sampling_as_asked,
     "Sampling values as the request asks, or those that the hosted service puts in their place."},
    {"history-reasoning",
     {"reference", "always"},
     &Profile::history_reasoning_always,
     "Reasoning of earlier turns is shown to the model as the reference codec does, only beside "
     "tools, or whenever a client sends it, which keeps the cached prefix of plain chats."},
    {"malformed-calls",
     {"repair", "reference"},
     &Profile::repair_calls,
     "Broken markup of tool calls is repaired, or read as the reference codec does."},
    {"stray-specials",
     {"remove", "show"},
     &Profile::remove_stray_specials,
     "Control tokens that are part of no answer are never sampled nor shown, or both."},
    {"json-filler",
     {"none", "spaces"},
     &Profile::json_filler_spaces,
     "In JSON mode, what stands around the JSON is left out, or becomes spaces."},
    {"forced-call-while-thinking",
     {"grammar", "reject"},
     &Profile::force_call_while_thinking,
     "A required or named tool beside thinking is accepted, or refused."},
    {"messages-any",
     {"required", "auto"},
     &Profile::messages_any_required,
     "Messages: tool_choice `any` asks for a call, or is `auto`."},
    {"messages-prefill",
     {"turn", "continue"},
     &Profile::messages_prefill_continue,
     "Messages: a last message of the assistant is a finished turn, or the answer's beginning."},
    {"missing-reasoning",
     {"fill", "reject"},
     &Profile::missing_reasoning_reject,
     "A turn of the assistant without the reasoning it must have had is accepted, or refused."},
    {"unknown-history",
     {"reject", "ignore"},
     &Profile::unknown_history_reject,
     "Responses: references to history that is not stored are refused, or ignored."},
    {"usage-chunk",
     {"extra", "last"},
     &Profile::usage_chunk,
     "Chat and Completions: usage that a stream asks for has a chunk of its own, or is in the last "
     "one."},
    {"responses-web-search",
     {"drop", "reject"},
     &Profile::responses_web_search_drop,
     "Responses: tools of the kind web_search are left out, or refused."},
    {"messages-web-search",
     {"reject", "drop"},
     &Profile::messages_web_search_drop,
     "Messages: tools of the kind web_search are refused, or left out."},
    {"model-names",
     {"any", "strict"},
     &Profile::strict_model_names,
     "Messages: every model name is served, or only the configured ones, as in the other APIs."},
    {"reasoning-field",
     {"reasoning_content", "both"},
     &Profile::chat_reasoning_twice,
     "Chat: reasoning is sent as `reasoning_content`, or as `reasoning` too, for clients that look "
     "there."},
};

}  // namespace

std::span<const ProfileSwitch> ProfileSwitches() { return kSwitches; }

}  // namespace sluice::codec
