// Profile: where the codec may follow the reference codec or its own better judgement (spec
// recipe.md §11). Plain data; the defaults are what users get, Reference() is what golden cases of
// the reference are compared with.

#pragma once

#include <span>
#include <string_view>

namespace sluice::codec {

struct Profile {
  // Sampling values as asked, instead of the fixed ones of the hosted service: temperature, top_p,
  // penalties, logit_bias, top_k, n.
  bool sampling_as_asked = true;
  // Reasoning of history is shown whenever it was sent, not only when tools are visible.
  bool history_reasoning_always = false;
  // Malformed call markup is repaired instead of passed on.
  bool repair_calls = true;
  // Control tokens that the model strays into are not shown as text.
  bool remove_stray_specials = true;
  // JSON mode sends one space for each token of text around the JSON.
  bool json_filler_spaces = false;
  // A required or named tool while thinking is forced by grammar, instead of refused.
  bool force_call_while_thinking = true;
  // Messages: `any` forces a call, instead of being `auto`.
  bool messages_any_required = true;
  // Messages: a trailing assistant message is continued, instead of being a finished turn.
  bool messages_prefill_continue = false;
  // An assistant turn without the reasoning it must have had is refused, instead of filled in.
  bool missing_reasoning_reject = false;
  // A turn of the model that comes back is the tokens it sampled, instead of rendered anew.
  bool splice_turns = true;
  // Responses: a reference to history that is not there is refused, instead of ignored.
  bool unknown_history_reject = true;
  // The last characters of an answer are shown even if they are U+FFFD, and every token counts.
  bool keep_tail = true;
  // With include_usage a chunk of its own, instead of the last chunk.
  bool usage_chunk = true;
  bool responses_web_search_drop = true;  // instead of refused
  bool messages_web_search_drop = false;
  // Messages: only configured model names, instead of any.
  bool strict_model_names = false;
  // Chat: reasoning is sent as `reasoning` too, beside `reasoning_content` (open case C19).
  bool chat_reasoning_twice = false;
  // All that is ours beyond the switches: integer efforts, allowed_tools, developer, custom tools,
  // max_completion_tokens, parallel calls switched off, thinking budgets, n, error envelopes.
  bool extensions = true;

  static Profile Reference();
};

inline Profile Profile::Reference() {
  return {.sampling_as_asked = false,
          .history_reasoning_always = false,
          .repair_calls = false,
          .remove_stray_specials = false,
          .json_filler_spaces = true,
          .force_call_while_thinking = false,
          .messages_any_required = false,
          .messages_prefill_continue = false,
          .missing_reasoning_reject = false,
          .splice_turns = false,
          .unknown_history_reject = false,
          .keep_tail = false,
          .usage_chunk = false,
          .responses_web_search_drop = true,
          .messages_web_search_drop = false,
          .strict_model_names = true,
          .chat_reasoning_twice = false,
          .extensions = false};
}

// What an operator may choose, one by one, by the names of spec recipe.md §11. The rest of a
// profile comes as a whole.
struct ProfileSwitch {
  std::string_view name;       // "malformed-calls"
  std::string_view values[2];  // the first is Profile{}'s
  bool Profile::* field;
  std::string_view help;  // a sentence for the list of options
};
std::span<const ProfileSwitch> ProfileSwitches();

}  // namespace sluice::codec
