#include "app/chat_view.h"

#include <fmt/format.h>

#include "app/command.h"
#include "base/json.h"
#include "base/utf8.h"

namespace sluice::app {
namespace {

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kDataPrefix = "data: ";

bool IsControl(uint32_t point) {
  return (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7F && point < 0xA0);
}

}  // namespace

std::string Dim(std::string_view text) { return fmt::format("{}{}{}", kDim, text, kPlain); }

std::string TerminalText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [point, n] = FirstCharacter(text);
    if (n == 0 || IsControl(point)) {
      out += fmt::format("\\x{:02x}", n == 0 ? static_cast<unsigned char>(text[0]) : point);
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

void ChatView::Take(std::string_view events) {
  while (!events.empty()) {
    const size_t end = events.find('\n');
    const std::string_view line = events.substr(0, end);
    events.remove_prefix(end == events.npos ? events.size() : end + 1);
    if (!line.starts_with(kDataPrefix) || !line.ends_with('}')) continue;
    TakeChunk(line.substr(kDataPrefix.size()));
  }
}

void ChatView::TakeChunk(std::string_view text) {
  const Result<Json> json = Json::Parse(text);
  if (!json) return;
  const JsonValue usage = json->root().Find("usage");
  if (usage.is_object()) {
    n_prompt_ = usage.Find("prompt_tokens").AsInt64();
    n_completion_ = usage.Find("completion_tokens").AsInt64();
  }
  for (const JsonValue choice : json->root().Find("choices").elements()) {
    const JsonValue delta = choice.Find("delta");
    const JsonValue reasoning = delta.Find("reasoning_content");
    if (reasoning.is_string()) {
      answer_.reasoning += reasoning.AsString();
      Show(Part::kReasoning, reasoning.AsString());
    }
    const JsonValue content = delta.Find("content");
    if (content.is_string()) {
      answer_.content += content.AsString();
      Show(Part::kContent, content.AsString());
    }
    for (const JsonValue call : delta.Find("tool_calls").elements()) {
      const JsonValue function = call.Find("function");
      const JsonValue name = function.Find("name");
      if (name.is_string()) {
        part_ = Part::kNone;
        answer_.calls.push_back(
            {.id = std::string(call.Find("id").AsString()), .name = std::string(name.AsString())});
        Show(Part::kCall, fmt::format("[call] {} ", name.AsString()));
      }
      const JsonValue arguments = function.Find("arguments");
      if (!arguments.is_string() || answer_.calls.empty()) continue;
      answer_.calls.back().arguments += arguments.AsString();
      Show(Part::kCall, arguments.AsString());
    }
  }
}

void ChatView::Show(Part part, std::string_view text) {
  if (text.empty() || (part == Part::kReasoning && !is_terminal_)) return;
  std::string out;
  if (part != part_ && !ends_line_) out += '\n';
  part_ = part;
  const std::string shown = TerminalText(text);
  out += part == Part::kReasoning ? Dim(shown) : shown;
  ends_line_ = text.ends_with('\n');
  Print(out);
}

void ChatView::Close() {
  if (!ends_line_) Print("\n");
  ends_line_ = true;
}

}  // namespace sluice::app
