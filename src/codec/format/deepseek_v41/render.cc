// hop 2 of 10: after ReadRequest, before Submit.
//
// Render writes a conversation as the model reads it, message by message. Only what is written here
// makes control tokens; everything that came from a client is plain text.

#include "codec/format/deepseek_v41/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "codec/call_id.h"
#include "codec/format/deepseek_v41/fixed_texts.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/format/deepseek_v41/tool_text.h"
#include "codec/format/json_text.h"
#include "codec/format/turns.h"

namespace sluice::codec::deepseek_v41 {
namespace {

class Renderer {
 public:
  Renderer(const Conversation& conversation, const Profile& profile)
      : conversation_(conversation),
        shows_tools_(!conversation.tools.empty()),
        drops_reasoning_(!shows_tools_ && !profile.history_reasoning_always) {}

  Prompt Take() {
    prompt_.text.reserve(SizeEstimate());
    prompt_.AddControl(Control::kBegin);
    std::vector<Turn> turns = TurnsOf(conversation_.messages);
    const bool starts_with_system = !turns.empty() && turns[0].role == Role::kSystem;
    if (HasAdditions() && !starts_with_system) turns.insert(turns.begin(), {Role::kSystem, {}});
    if (turns.empty()) {
      prompt_.AddControl(Control::kAssistant);
      AddThinkingMark();
      return std::move(prompt_);
    }
    AddBegin(turns[0].role);
    bool needs_additions = HasAdditions();
    for (size_t i = 0; i < turns.size(); ++i) {
      AddTurn(turns, i);
      if (turns[i].role != Role::kSystem || !needs_additions) continue;
      AddAdditions();
      needs_additions = false;
    }
    AddTail();
    return std::move(prompt_);
  }

 private:
  // What is appended to the first system message.
  bool HasAdditions() const {
    return shows_tools_ || conversation_.response_format == ResponseFormat::kJsonObject ||
           conversation_.response_format == ResponseFormat::kJsonSchema;
  }

  void AddAdditions() {
    if (shows_tools_) AddTools(conversation_.tools, prompt_);
    if (conversation_.response_format == ResponseFormat::kJsonObject) {
      prompt_.Add(kResponseFormatBefore);
      prompt_.Add("{\"type\": \"json_object\"}");
    }
    if (conversation_.response_format == ResponseFormat::kJsonSchema) {
      prompt_.Add(kResponseFormatBefore);
      AddSchema(conversation_.response_schema);
    }
  }

  void AddSchema(const std::string& text) {
    const Result<Json> schema = Json::Parse(text);
    SLUICE_CHECK(schema);  // the dialect has read it
    AppendJsonText(schema->root(), prompt_.text);
  }

  void AddBegin(Role first) {
    if (conversation_.thinking || first == Role::kSystem) prompt_.AddControl(Control::kSystem);
    if (!conversation_.thinking) return;
    prompt_.Add(kEffortBefore);
    prompt_.Add(fmt::to_string(conversation_.effort));
    prompt_.Add(kEffortAfter);
  }

  void AddTurn(const std::vector<Turn>& turns, size_t i) {
    const Turn& turn = turns[i];
    switch (turn.role) {
      case Role::kSystem:
        if (i > 0) prompt_.AddControl(Control::kSystem);
        if (turn.messages.empty()) return;
        AddText(turn.messages[0]);
        if (!turn.messages[0].tools.empty()) AddUpdatedTools(turn.messages[0].tools, prompt_);
        return;
      case Role::kUser:
        AddUserLead(turns, i);
        for (const Message& message : turn.messages) {
          if (&message != turn.messages.data()) prompt_.Add("\n\n");
          AddText(message);
        }
        return;
      case Role::kTool:
        AddUserLead(turns, i);
        prompt_.Add("<tool_result>");
        AddText(turn.messages[0]);
        prompt_.Add("</tool_result>");
        return;
      case Role::kLatestReminder:
        prompt_.AddControl(Control::kReminder);
        AddText(turn.messages[0]);
        return;
      case Role::kAssistant:
        return AddAssistant(turn.messages[0], i);
    }
  }

  void AddUserLead(const std::vector<Turn>& turns, size_t i) {
    const bool continues =
        i > 0 && (turns[i - 1].role == Role::kUser || turns[i - 1].role == Role::kTool);
    continues ? prompt_.Add("\n\n") : prompt_.AddControl(Control::kUser);
  }

  // Images stand where they were; each is one control token.
  void AddText(const Message& message) {
    const std::string_view text = message.text;
    size_t at = 0;
    for (const Image& image : message.images) {
      SLUICE_CHECK(image.offset >= at && image.offset <= text.size());
      prompt_.Add(text.substr(at, image.offset - at));
      prompt_.AddImage(Control::kImage, image);
      at = image.offset;
    }
    prompt_.Add(text.substr(at));
  }

  void AddAssistant(const Message& message, size_t i) {
    prompt_.AddControl(Control::kAssistant);
    const Prompt::Place begin = prompt_.Here();
    const bool shows = conversation_.thinking && i > 0 && (!drops_reasoning_ || message.is_prefix);
    if (shows) {
      prompt_.AddControl(Control::kThink);
      if (message.reasoning) AddGrounded(*message.reasoning);
    }
    const bool lacks_reasoning =
        shows && !message.reasoning && !HasEmptyThinkingMark(message.calls);
    if (lacks_reasoning) ++prompt_.n_missing_reasoning;
    const bool is_open =
        shows && message.is_prefix && message.text.empty() && message.calls.empty();
    if (is_open) return;
    prompt_.AddControl(Control::kEndThink);
    AddGrounded(message.text);
    if (!message.calls.empty()) AddCalls(message.calls, prompt_);
    if (message.is_prefix) return;
    prompt_.AddControl(Control::kEnd);
    prompt_.turns.push_back({.begin = begin,
                             .end = prompt_.marks.size(),
                             .message = &message,
                             .first = prompt_.marks[begin.n_marks].control,
                             .lacks_reasoning = lacks_reasoning});
  }

  // The model's own text, in which the grounding tokens it wrote are tokens again.
  void AddGrounded(std::string_view text) {
    constexpr std::string_view kOpening = "<｜";
    size_t begin = 0;
    for (size_t at = text.find(kOpening); at != std::string_view::npos;
         at = text.find(kOpening, at)) {
      size_t i = kFirstGrounding;
      while (i < kNumControls &&
             !text.substr(at).starts_with(SpellingOf(static_cast<Control>(i)))) {
        ++i;
      }
      if (i == kNumControls) {
        at += kOpening.size();
        continue;
      }
      prompt_.Add(text.substr(begin, at - begin));
      prompt_.AddControl(static_cast<Control>(i));
      at += SpellingOf(static_cast<Control>(i)).size();
      begin = at;
    }
    prompt_.Add(text.substr(begin));
  }

  void AddThinkingMark() {
    prompt_.AddControl(conversation_.thinking ? Control::kThink : Control::kEndThink);
  }

  void AddTail() {
    const Message* last = conversation_.messages.empty() ? nullptr : &conversation_.messages.back();
    if (last != nullptr && last->role == Role::kAssistant && last->is_prefix) return;
    prompt_.AddControl(Control::kAssistant);
    // Reasoning that will not be shown again changes what stands behind it.
    if (!conversation_.thinking || !drops_reasoning_) prompt_.answer = prompt_.Here();
    AddThinkingMark();
    if (OpensCalls(conversation_)) AddCallsOpening(prompt_);
  }

  size_t SizeEstimate() const {
    size_t n = 4096;
    for (const Message& message : conversation_.messages) {
      n += message.text.size() + message.reasoning.value_or("").size() + 64;
      for (const ToolCall& call : message.calls) n += 2 * call.arguments.size() + 256;
    }
    for (const Tool& tool : conversation_.tools) n += 2 * tool.parameters.size() + 512;
    return n;
  }

  const Conversation& conversation_;
  const bool shows_tools_;
  const bool drops_reasoning_;
  Prompt prompt_;
};

// Without a template; fill in the middle in the order of spec recipe.md §12.
Prompt RenderRaw(const RawPrompt& raw) {
  Prompt prompt;
  prompt.AddControl(Control::kBegin);
  if (raw.suffix) prompt.AddControl(Control::kFimBegin);
  prompt.Add(raw.text);
  if (!raw.suffix) return prompt;
  prompt.AddControl(Control::kFimHole);
  prompt.Add(*raw.suffix);
  prompt.AddControl(Control::kFimEnd);
  return prompt;
}

}  // namespace

bool OpensCalls(const Conversation& conversation) {
  const bool is_required = conversation.tool_choice == ToolChoice::kRequired ||
                           conversation.tool_choice == ToolChoice::kNamed;
  return is_required && !conversation.thinking && !conversation.tools.empty();
}

Prompt Render(const Conversation& conversation, const Profile& profile) {
  if (conversation.raw) return RenderRaw(*conversation.raw);
  return Renderer(conversation, profile).Take();
}

}  // namespace sluice::codec::deepseek_v41
