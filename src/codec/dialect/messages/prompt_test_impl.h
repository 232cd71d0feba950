// The prompt of a conversation as the golden cases write it, straight from the rules (spec
// recipe.md §3), so that Decode can be held to whole prompts without a tokenizer. For tests only;
// the fixed tools texts stand as {tools}, {/tools} and {shown}.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "codec/conversation.h"
#include "codec/dialect/spaced_json.h"

namespace sluice::codec::messages {

inline std::string SchemaLines(const std::vector<Tool>& tools, bool with_deferred) {
  std::string lines;
  for (const Tool& tool : tools) {
    if (tool.is_deferred && !with_deferred) continue;
    if (!lines.empty()) lines += '\n';
    Result<Json> parameters = Json::Parse(tool.parameters.empty() ? "{}" : tool.parameters);
    const std::string line = "{\"name\": \"" + tool.name + "\", \"description\": ";
    std::string text;
    JsonWriter(text).String(tool.description.value_or(""));
    lines += line + text + ", \"parameters\": " + SpacedJson(parameters->root()) + "}";
  }
  return lines;
}

inline std::string CallsBlock(const std::vector<ToolCall>& calls) {
  std::string block;
  for (const ToolCall& call : calls) {
    std::string parameters;
    auto add = [&](std::string_view key, bool is_string, std::string_view value) {
      if (!parameters.empty()) parameters += '\n';
      parameters +=
          fmt::format("<｜DSML｜ parameter name=\"{}\" string=\"{}\">{}</｜DSML｜ parameter>", key,
                      is_string, value);
    };
    Result<Json> json = Json::Parse(call.arguments);
    if (!json || !json->root().is_object()) {
      add("arguments", true, call.arguments);
    } else {
      for (JsonMember member : json->root().members()) {
        const bool is_string = member.value.is_string();
        add(member.key, is_string,
            is_string ? std::string(member.value.AsString()) : SpacedJson(member.value));
      }
    }
    if (!block.empty()) block += '\n';
    block +=
        fmt::format("<｜DSML｜ invoke name=\"{}\">\n{}\n</｜DSML｜ invoke>", call.name, parameters);
  }
  return block.empty() ? "" : "\n\n<｜DSML｜ calls>\n" + block + "\n</｜DSML｜ calls>";
}

inline std::string TextOf(const Message& message) {
  std::string text = message.text;
  for (auto image = message.images.rbegin(); image != message.images.rend(); ++image)
    text.insert(image->offset, "<｜deepseek_image｜>");
  return text;
}

inline std::vector<Message> Joined(const std::vector<Message>& messages) {
  std::vector<Message> joined;
  for (Message message : messages) {
    message.text = TextOf(message);
    message.images.clear();
    if (message.role == Role::kUser && !joined.empty() && joined.back().role == Role::kUser) {
      joined.back().text += "\n\n" + message.text;
    } else {
      joined.push_back(std::move(message));
    }
  }
  return joined;
}

// Results in the order of the calls they answer; of an unknown id as of the first call.
inline void OrderResults(std::vector<Message>& messages) {
  const std::vector<ToolCall>* calls = nullptr;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].calls.empty()) calls = &messages[i].calls;
    if (messages[i].role != Role::kTool || calls == nullptr) continue;
    std::multimap<ptrdiff_t, Message> ordered;  // equal keys stay in their order
    const size_t first = i;
    for (; i < messages.size() && messages[i].role == Role::kTool; ++i) {
      auto found = std::ranges::find(*calls, messages[i].tool_call_id, &ToolCall::id);
      ordered.emplace(found == calls->end() ? 0 : found - calls->begin(), std::move(messages[i]));
    }
    size_t at = first;
    for (auto& [place, message] : ordered) messages[at++] = std::move(message);
    --i;
  }
}

inline std::string PromptOf(const Conversation& conversation) {
  std::vector<Message> messages = Joined(conversation.messages);
  OrderResults(messages);
  const bool shows_tools =
      conversation.tool_choice != ToolChoice::kNone && !conversation.tools.empty();
  if (shows_tools) {
    if (messages.empty() || messages[0].role != Role::kSystem)
      messages.insert(messages.begin(), {.role = Role::kSystem});
    messages[0].text += "{tools}" + SchemaLines(conversation.tools, false) + "{/tools}";
  }
  std::string prompt = "<｜begin▁of▁sentence｜>";
  if (conversation.thinking) {
    prompt += fmt::format(
        "<｜System｜>Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the "
        "reasoning)\n\n",
        conversation.effort);
  } else if (!messages.empty() && messages[0].role == Role::kSystem) {
    prompt += "<｜System｜>";
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& m = messages[i];
    const bool continues_turn =
        i > 0 && (messages[i - 1].role == Role::kUser || messages[i - 1].role == Role::kTool);
    if (m.role == Role::kSystem) {
      if (i > 0) prompt += "<｜System｜>";
      prompt += m.text;
      if (!m.tools.empty()) prompt += "{shown}" + SchemaLines(m.tools, true);
    } else if (m.role == Role::kAssistant) {
      const bool shows = conversation.thinking && i > 0 && shows_tools;
      prompt += "<｜Assistant｜>";
      if (shows) prompt += "<think>" + m.reasoning.value_or("");
      prompt += "</think>" + m.text + CallsBlock(m.calls);
      if (!m.is_prefix) prompt += "<｜end▁of▁sentence｜>";
    } else {
      prompt += continues_turn ? "\n\n" : "<｜User｜>";
      prompt += m.role == Role::kTool ? "<tool_result>" + m.text + "</tool_result>" : m.text;
    }
  }
  if (!messages.empty() && messages.back().is_prefix) return prompt;
  prompt += conversation.thinking ? "<｜Assistant｜><think>" : "<｜Assistant｜></think>";
  const bool is_forced = conversation.tool_choice == ToolChoice::kRequired ||
                         conversation.tool_choice == ToolChoice::kNamed;
  // While thinking a grammar forces the call.
  if (shows_tools && is_forced && !conversation.thinking) prompt += "\n\n<｜DSML｜ calls>\n";
  return prompt;
}

}  // namespace sluice::codec::messages
