#include "codec/format/deepseek_v41/tool_text.h"

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "codec/format/deepseek_v41/fixed_texts.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/format/json_text.h"
#include "codec/json_escape.h"

namespace sluice::codec::deepseek_v41 {
namespace {

// A fixed text, in which the spellings of three control tokens are those tokens.
void AddFixed(std::string_view text, Prompt& prompt) {
  constexpr Control kMarked[] = {Control::kDsml, Control::kThink, Control::kEndThink};
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    size_t n = 0;
    for (const Control control : kMarked) {
      if (!text.substr(at).starts_with(SpellingOf(control))) continue;
      prompt.Add(text.substr(begin, at - begin));
      prompt.AddControl(control);
      n = SpellingOf(control).size();
      begin = at + n;
    }
    at += n > 0 ? n : 1;
  }
  prompt.Add(text.substr(begin));
}

void AddQuoted(std::string_view text, Prompt& prompt) {
  prompt.text += '"';
  AppendJsonEscaped(prompt.text, text);
  prompt.text += '"';
}

// {"name": …, "description": …, "parameters": …}
void AddSchemaLine(const Tool& tool, Prompt& prompt) {
  prompt.Add("{\"name\": ");
  AddQuoted(tool.name, prompt);
  prompt.Add(", \"description\": ");
  AddQuoted(tool.description.value_or(""), prompt);
  prompt.Add(", \"parameters\": ");
  if (tool.parameters.empty()) {
    prompt.Add("{}");
  } else {
    const Result<Json> schema = Json::Parse(tool.parameters);
    SLUICE_CHECK(schema);  // the dialect has read it
    AppendJsonText(schema->root(), prompt.text);
  }
  prompt.Add("}");
}

void AddSchemaLines(std::span<const Tool> tools, bool with_deferred, Prompt& prompt) {
  bool is_first = true;
  for (const Tool& tool : tools) {
    if (tool.is_deferred && !with_deferred) continue;
    if (!is_first) prompt.Add("\n");
    is_first = false;
    AddSchemaLine(tool, prompt);
  }
}

// `<` or `</`, the markup's token, and the rest of the tag.
void AddTag(std::string_view opening, std::string_view rest, Prompt& prompt) {
  prompt.Add(opening);
  prompt.AddControl(Control::kDsml);
  prompt.Add(rest);
}

// Nothing in it is escaped: that is how the model writes it.
void AddParameter(std::string_view key, bool is_string, const auto& add_value, Prompt& prompt) {
  AddTag("<", " parameter name=\"", prompt);
  prompt.Add(key);
  prompt.Add(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  add_value();
  AddTag("</", " parameter>", prompt);
}

void AddCall(const ToolCall& call, Prompt& prompt) {
  AddTag("<", " invoke name=\"", prompt);
  prompt.Add(call.name);
  prompt.Add("\">\n");
  const Result<Json> json = Json::Parse(call.arguments);
  if (!json || !json->root().is_object() || HasLoneSurrogate(call.arguments)) {
    AddParameter("arguments", true, [&] { prompt.Add(call.arguments); }, prompt);
  } else {
    bool is_first = true;
    for (const JsonMember member : json->root().members()) {
      if (!is_first) prompt.Add("\n");
      is_first = false;
      const bool is_string = member.value.is_string();
      auto add_value = [&] {
        is_string ? prompt.Add(member.value.AsString()) : AppendJsonText(member.value, prompt.text);
      };
      AddParameter(member.key, is_string, add_value, prompt);
    }
  }
  prompt.Add("\n");
  AddTag("</", " invoke>", prompt);
}

}  // namespace

void AddTools(std::span<const Tool> tools, Prompt& prompt) {
  AddFixed(kToolsBefore, prompt);
  AddSchemaLines(tools, false, prompt);
  prompt.Add(kToolsAfter);
}

void AddUpdatedTools(std::span<const Tool> tools, Prompt& prompt) {
  prompt.Add(kUpdatedToolsBefore);
  AddSchemaLines(tools, true, prompt);
}

void AddCalls(std::span<const ToolCall> calls, Prompt& prompt) {
  AddCallsOpening(prompt);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) prompt.Add("\n");
    AddCall(calls[i], prompt);
  }
  prompt.Add("\n");
  AddTag("</", " calls>", prompt);
}

void AddCallsOpening(Prompt& prompt) {
  prompt.Add("\n\n");
  AddTag("<", " calls>\n", prompt);
}

}  // namespace sluice::codec::deepseek_v41
