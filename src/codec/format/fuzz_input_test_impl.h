// What the fuzzers of all formats make of their input, and what they ask of every format.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/conversation.h"
#include "codec/format.h"
#include "codec/format/lexer_run_test_impl.h"
#include "codec/format/prompt.h"
#include "codec/turn_memory.h"
#include "token/vocabulary.h"

namespace sluice::codec {

inline std::string_view TakeUntilZero(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

inline std::string TakeText(std::string_view& rest) {
  std::string text;
  AppendValidUtf8(text, TakeUntilZero(rest));
  return text;
}

struct LexerInput {
  AnswerSpec spec;
  Cut cut;
  std::string_view output;  // control tokens are spelled
};

// `flags`: 4 log probabilities, 8 calls, 32 JSON, 128 the end is a limit. `rest`: stop strings
// between `|`, ended by 0, the sizes of the pieces ended by 0, then the output.
inline LexerInput ReadLexerInput(uint8_t flags, std::string_view rest) {
  LexerInput input;
  AnswerSpec& spec = input.spec;
  spec.logprobs = (flags & 4) != 0;
  spec.parses_calls = (flags & 8) != 0;
  spec.is_json = (flags & 32) != 0;
  input.cut.at_limit = (flags & 128) != 0;
  const std::string text = TakeText(rest);
  for (std::string_view stops = text; !stops.empty() && spec.stops.size() < 16;) {
    const size_t end = std::min(stops.find('|'), stops.size());
    if (end > 0) spec.stops.emplace_back(stops.substr(0, end));
    stops.remove_prefix(std::min(end + 1, stops.size()));
  }
  for (const char c : TakeUntilZero(rest)) input.cut.sizes.push_back(static_cast<uint8_t>(c));
  input.output = rest;
  return input;
}

// The same by tokens, cut as the input says, and as a whole.
inline Lexed LexByAnyCut(Format format, const LexerInput& input) {
  const std::vector<TokenId> tokens = TokensOf(format, input.output);
  const bool at_limit = input.cut.at_limit;
  const Lexed by_token = Lex(format, input.spec, tokens, {.at_limit = at_limit});
  SLUICE_CHECK(Lex(format, input.spec, tokens, input.cut) == by_token);
  const Cut whole = {.sizes = {tokens.size() + 1}, .at_limit = at_limit};
  SLUICE_CHECK(Lex(format, input.spec, tokens, whole) == by_token);
  SLUICE_CHECK(by_token.n_tokens <= std::ssize(tokens));
  return by_token;
}

inline Message MessageOf(uint8_t what, const std::string& text) {
  constexpr Role kRoles[] = {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool,
                             Role::kLatestReminder};
  const Role role = kRoles[what % 5];
  Message message{.role = role, .text = text};
  if (role == Role::kTool && (what & 64) != 0) message.tool_call_id = text.substr(0, 1);
  if (role == Role::kAssistant && (what & 64) != 0) message.reasoning = text;
  if (role == Role::kAssistant && (what & 128) != 0) {
    message.calls.push_back({.id = text.substr(0, 1), .name = text, .arguments = text});
  }
  if (role == Role::kSystem && (what & 64) != 0) {
    message.tools.push_back({.name = text, .description = text, .parameters = {}});
  }
  return message;
}

// `flags`: 2 a tool, 4 a call is required, 8 JSON, 16 the last turn is continued. `rest`: records
// of a byte that says what comes and a text ended by 0.
inline Conversation ReadConversation(uint8_t flags, std::string_view rest) {
  Conversation conversation;
  if ((flags & 2) != 0) {
    conversation.tools.push_back({.name = "f", .description = {}, .parameters = "{\"a\":1e5}"});
  }
  if ((flags & 4) != 0) conversation.tool_choice = ToolChoice::kRequired;
  if ((flags & 8) != 0) conversation.response_format = ResponseFormat::kJsonObject;
  std::vector<Message>& messages = conversation.messages;
  while (!rest.empty() && messages.size() < 64) {
    const auto what = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    messages.push_back(MessageOf(what, TakeText(rest)));
  }
  if ((flags & 16) != 0 && !messages.empty() && messages.back().role == Role::kAssistant) {
    messages.back().is_prefix = true;
  }
  return conversation;
}

// No text of it is a control token. Returns what its tokens spell: the prompt, unless the tokenizer
// normalises text.
inline std::string CheckPrompt(const Prompt& prompt, Format format) {
  const std::vector<TokenId> ids = Encode(prompt, format).ids;
  std::string text;
  size_t n_controls = 0;
  for (const TokenId id : ids) {
    text += format.text(id);
    n_controls += format.vocabulary().is_added(id) ? 1 : 0;
  }
  SLUICE_CHECK(n_controls == prompt.marks.size());
  static TurnMemory turns(1 << 20);  // in which nothing is
  SLUICE_CHECK(Encode(prompt, format, &turns).ids == ids);
  return text;
}

}  // namespace sluice::codec
