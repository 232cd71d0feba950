// hop 2 of 10: after ReadRequest, before Submit.
//
// Render writes a conversation as the model reads it, turn by turn. Only what is written here makes
// control tokens; everything that came from a client is plain text. Reasoning of the history is not
// shown: these models have no place for it.

#include "codec/format/chatml/render.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "codec/format/json_text.h"
#include "codec/format/turns.h"
#include "codec/json_escape.h"

namespace sluice::codec::chatml {
namespace {

// Ours; the templates know no formats of an answer.
constexpr std::string_view kAnswerWithJson = "Answer with JSON and nothing else.";
constexpr std::string_view kAnswerWithSchema =
    "Answer with JSON and nothing else. It must match this JSON schema:\n";

bool WantsJson(ResponseFormat format) {
  return format == ResponseFormat::kJsonObject || format == ResponseFormat::kJsonSchema;
}

class Renderer {
 public:
  Renderer(const Conversation& conversation, const Format& format)
      : conversation_(conversation), format_(format), words_(WordsOf(format.family())) {}

  Prompt Take() {
    prompt_.text.reserve(SizeEstimate());
    const std::vector<Turn> turns = TurnsOf(conversation_.messages);
    const bool has_system = !turns.empty() && turns[0].role == Role::kSystem;
    AddFirstSystem(has_system ? turns[0].messages.data() : nullptr);
    for (size_t i = has_system ? 1 : 0; i < turns.size(); ++i) AddTurn(turns, i);
    AddTail();
    return std::move(prompt_);
  }

 private:
  void BeginTurn(std::string_view role) {
    prompt_.AddControl(Control::kStart);
    prompt_.Add(role);
    prompt_.Add("\n");
  }
  void EndTurn() {
    prompt_.AddControl(Control::kEnd);
    prompt_.Add("\n");
  }
  void AddPlainTurn(std::string_view role, std::string_view text) {
    BeginTurn(role);
    prompt_.Add(text);
    EndTurn();
  }

  // `first`: null if the conversation begins otherwise.
  void AddFirstSystem(const Message* first) {
    BeginTurn("system");
    const size_t begin = prompt_.text.size();
    const bool has_tools = !conversation_.tools.empty();
    if (first != nullptr) {
      prompt_.Add(first->text);
    } else if (!has_tools || !words_.in_lists) {
      prompt_.Add(words_.default_system);
    }
    if (has_tools) AddTools(conversation_.tools, begin);
    if (first != nullptr && !first->tools.empty()) AddTools(first->tools, begin);
    if (WantsJson(conversation_.response_format)) AddResponseFormat(begin);
    EndTurn();
  }

  // `begin`: of the system's text.
  void AddTools(std::span<const Tool> tools, size_t begin) {
    if (words_.in_lists) AddGap(begin);
    AddMarked(words_.tools_before);
    if (words_.in_lists) prompt_.Add("[");
    bool is_first = true;
    for (const Tool& tool : tools) {
      if (tool.is_deferred) continue;
      if (!words_.in_lists) prompt_.Add("\n");
      if (words_.in_lists && !is_first) prompt_.Add(", ");
      is_first = false;
      AddTool(tool);
    }
    if (words_.in_lists) prompt_.Add("]");
    AddMarked(words_.tools_after);
  }

  void AddGap(size_t begin) {
    if (prompt_.text.size() > begin) prompt_.Add("\n\n");
  }

  // {"type": "function", "function": {"name": …, "description": …, "parameters": …}}
  void AddTool(const Tool& tool) {
    prompt_.Add("{\"type\": \"function\", \"function\": {\"name\": ");
    AddQuoted(tool.name);
    if (tool.description) {
      prompt_.Add(", \"description\": ");
      AddQuoted(*tool.description);
    }
    prompt_.Add(", \"parameters\": ");
    tool.parameters.empty() ? prompt_.Add("{}") : AddJson(tool.parameters);
    prompt_.Add("}}");
  }

  void AddResponseFormat(size_t begin) {
    AddGap(begin);
    if (conversation_.response_format == ResponseFormat::kJsonObject) {
      return prompt_.Add(kAnswerWithJson);
    }
    prompt_.Add(kAnswerWithSchema);
    AddJson(conversation_.response_schema);
  }

  void AddTurn(const std::vector<Turn>& turns, size_t i) {
    const Turn& turn = turns[i];
    switch (turn.role) {
      case Role::kSystem: {
        const Message& message = turn.messages[0];
        BeginTurn("system");
        const size_t begin = prompt_.text.size();
        prompt_.Add(message.text);
        if (!message.tools.empty()) AddTools(message.tools, begin);
        return EndTurn();
      }
      case Role::kUser:
        for (const Message& message : turn.messages) AddPlainTurn("user", message.text);
        return;
      case Role::kLatestReminder:
        return AddPlainTurn("system", turn.messages[0].text);
      case Role::kTool:
        return AddResult(turns, i);
      case Role::kAssistant:
        return AddAssistant(turn.messages[0]);
    }
  }

  // Results that follow each other are one turn.
  void AddResult(const std::vector<Turn>& turns, size_t i) {
    const bool continues = i > 0 && turns[i - 1].role == Role::kTool;
    if (continues) {
      prompt_.Add("\n");
    } else {
      BeginTurn("user");
    }
    prompt_.Add("<tool_response>\n");
    prompt_.Add(turns[i].messages[0].text);
    prompt_.Add("\n</tool_response>");
    const bool goes_on = i + 1 < turns.size() && turns[i + 1].role == Role::kTool;
    if (!goes_on) EndTurn();
  }

  void AddAssistant(const Message& message) {
    BeginTurn("assistant");
    const Prompt::Place begin = prompt_.Here();
    prompt_.Add(message.text);
    if (!message.calls.empty()) {
      if (!message.text.empty()) prompt_.Add("\n");
      AddCalls(message.calls);
    }
    if (message.is_prefix) return;
    prompt_.AddControl(Control::kEnd);
    prompt_.turns.push_back({.begin = begin,
                             .end = prompt_.marks.size(),
                             .message = &message,
                             .first = std::nullopt,
                             .lacks_reasoning = false});
    prompt_.Add("\n");
  }

  void AddCalls(std::span<const ToolCall> calls) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (i > 0) prompt_.Add(words_.in_lists ? ", " : "\n");
      if (!words_.in_lists || i == 0) AddMark(Control::kToolCall);
      if (i == 0 && words_.in_lists) prompt_.Add("[");
      if (!words_.in_lists) prompt_.Add("\n");
      prompt_.Add("{\"name\": ");
      AddQuoted(calls[i].name);
      prompt_.Add(", \"arguments\": ");
      AddArguments(calls[i].arguments);
      prompt_.Add("}");
      if (words_.in_lists && i + 1 == calls.size()) prompt_.Add("]");
      if (!words_.in_lists) prompt_.Add("\n");
      if (!words_.in_lists || i + 1 == calls.size()) AddMark(Control::kEndToolCall);
    }
  }

  // What is no JSON is a string, so that the call as a whole is JSON.
  void AddArguments(const std::string& arguments) {
    const Result<Json> json = Json::Parse(arguments);
    if (!json || HasLoneSurrogate(arguments)) return AddQuoted(arguments);
    AppendJsonText(json->root(), prompt_.text);
  }

  void AddTail() {
    const std::vector<Message>& messages = conversation_.messages;
    const bool continues =
        !messages.empty() && messages.back().role == Role::kAssistant && messages.back().is_prefix;
    if (continues) return;
    BeginTurn("assistant");
    prompt_.answer = prompt_.Here();
    const std::string opening = CallsOpening(conversation_, format_.family());
    if (opening.empty()) return;
    AddMark(Control::kToolCall);  // the rest may have a client's words
    prompt_.Add(std::string_view(opening).substr(SpellingOf(Control::kToolCall).size()));
  }

  // One of the two marks of calls.
  void AddMark(Control control) {
    format_.has_call_tokens() ? prompt_.AddControl(control) : prompt_.Add(SpellingOf(control));
  }

  // A text of our own, in which the marks of calls are what they are in this vocabulary.
  void AddMarked(std::string_view text) {
    constexpr Control kMarked[] = {Control::kToolCall, Control::kEndToolCall};
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      size_t n = 0;
      for (const Control control : kMarked) {
        if (!text.substr(at).starts_with(SpellingOf(control))) continue;
        prompt_.Add(text.substr(begin, at - begin));
        AddMark(control);
        n = SpellingOf(control).size();
        begin = at + n;
      }
      at += n > 0 ? n : 1;
    }
    prompt_.Add(text.substr(begin));
  }

  void AddQuoted(std::string_view text) {
    prompt_.text += '"';
    AppendJsonEscaped(prompt_.text, text);
    prompt_.text += '"';
  }

  void AddJson(const std::string& text) {
    const Result<Json> json = Json::Parse(text);
    SLUICE_CHECK(json);  // the dialect has read it
    AppendJsonText(json->root(), prompt_.text);
  }

  size_t SizeEstimate() const {
    size_t n = 2048;
    for (const Message& message : conversation_.messages) {
      n += message.text.size() + 64;
      for (const ToolCall& call : message.calls) n += 2 * call.arguments.size() + 128;
    }
    for (const Tool& tool : conversation_.tools) n += 2 * tool.parameters.size() + 512;
    return n;
  }

  const Conversation& conversation_;
  const Format& format_;
  const Words& words_;
  Prompt prompt_;
};

}  // namespace

std::string CallsOpening(const Conversation& conversation, Family family) {
  if (!ForcesCall(conversation.tool_choice) || conversation.tools.empty()) return "";
  std::string opening(SpellingOf(Control::kToolCall));
  opening += WordsOf(family).in_lists ? "[" : "\n";
  // It ends where a token of the model's own would end: the space belongs to what follows.
  opening += "{\"name\":";
  // One tool needs no choice between tools.
  const bool is_named = conversation.tool_choice == ToolChoice::kNamed;
  if (is_named || conversation.tools.size() == 1) {
    opening += " \"";
    AppendJsonEscaped(opening, is_named ? conversation.named_tool : conversation.tools[0].name);
    opening += "\", \"arguments\":";
  }
  return opening;
}

Prompt Render(const Conversation& conversation, const Format& format) {
  if (!conversation.raw) return Renderer(conversation, format).Take();
  SLUICE_CHECK(!conversation.raw->suffix);  // the dialect asked Format::fills_in
  Prompt prompt;
  if (const std::optional<TokenId> begin = format.begin()) {
    prompt.Add(format.text(*begin));
    prompt.marks.push_back(
        {.begin = 0, .end = prompt.text.size(), .control = static_cast<uint8_t>(Control::kBegin)});
  }
  prompt.Add(conversation.raw->text);
  return prompt;
}

}  // namespace sluice::codec::chatml
