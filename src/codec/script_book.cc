#include "codec/script_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>

#include "base/limits.h"
#include "base/metrics.h"
#include "codec/script_line_impl.h"
#include "codec/trim.h"
#include "token/bpe.h"

namespace sluice::codec {
namespace {

constexpr std::string_view kMark = "</think>";
constexpr std::string_view kExhausted = "</think>SCRIPT EXHAUSTED";

// A line and how often it may still be taken.
struct Entry {
  explicit Entry(ScriptLine l) : line(std::move(l)), n_left(line.times) {}

  bool Take() {
    int64_t n = n_left.load(std::memory_order_relaxed);
    while (n > 0) {
      if (n_left.compare_exchange_weak(n, n - 1, std::memory_order_relaxed)) return true;
    }
    return n == kAlways;
  }

  const ScriptLine line;
  std::atomic<int64_t> n_left;
};

bool Contains(std::string_view text, std::string_view wanted) {
  return text.find(wanted) != std::string_view::npos;
}

// Whether the last message of the user's side holds `wanted`, in any of its parts.
bool LastContains(const Conversation& conversation, std::string_view wanted) {
  if (conversation.raw) return Contains(conversation.raw->text, wanted);
  const std::vector<Message>& messages = conversation.messages;
  auto m = std::ranges::find_if(messages.rbegin(), messages.rend(), [](const Message& message) {
    return message.role == Role::kUser || message.role == Role::kTool || message.is_developer;
  });
  for (; m != messages.rend(); ++m) {
    if (Contains(m->text, wanted)) return true;
    if (!m->continues) return false;
  }
  return false;
}

bool PromptContains(const Conversation& conversation, std::string_view wanted) {
  if (conversation.raw && Contains(conversation.raw->text, wanted)) return true;
  for (const Message& message : conversation.messages) {
    if (Contains(message.text, wanted) || Contains(message.reasoning.value_or(""), wanted))
      return true;
    for (const ToolCall& call : message.calls) {
      if (Contains(call.name, wanted) || Contains(call.arguments, wanted)) return true;
    }
  }
  return std::ranges::any_of(conversation.tools, [&](const Tool& tool) {
    return Contains(tool.name, wanted) || Contains(tool.description.value_or(""), wanted) ||
           Contains(tool.parameters, wanted);
  });
}

bool Holds(const ScriptConditions& when, std::string_view api, const Conversation& conversation) {
  if (when.api && *when.api != api) return false;
  if (when.tools && *when.tools != !conversation.tools.empty()) return false;
  if (when.tool &&
      std::ranges::find(conversation.tools, *when.tool, &Tool::name) == conversation.tools.end())
    return false;
  if (when.last && !LastContains(conversation, *when.last)) return false;
  return !when.prompt || PromptContains(conversation, *when.prompt);
}

// `out` is written for thinking mode (spec script-format.md §3).
std::string_view Fit(std::string_view out,
                     std::string_view api,
                     const Conversation& conversation,
                     Format format) {
  const bool is_plain = api == "completions";
  if (!conversation.thinking || is_plain) {
    const size_t mark = is_plain ? out.rfind(kMark) : out.find(kMark);
    if (mark != std::string_view::npos) out = out.substr(mark + kMark.size());
  }
  const std::string opening = format.CallsOpening(conversation);  // the prompt has it already
  const size_t at = opening.empty() ? std::string_view::npos : out.find(opening);
  return at == std::string_view::npos ? out : out.substr(at + opening.size());
}

std::vector<TokenId> Tokens(std::string_view text, Format format) {
  std::vector<TokenId> ids;
  format.bpe().EncodeWithAdded(text, ids);
  return ids;
}

}  // namespace

struct ScriptBook::Lines {
  std::deque<Entry> entries;  // atomics do not move
};

ScriptBook::ScriptBook(std::unique_ptr<Lines> lines) : lines_(std::move(lines)) {}
ScriptBook::ScriptBook(ScriptBook&&) noexcept = default;
ScriptBook::~ScriptBook() = default;

Result<ScriptBook> ScriptBook::Parse(std::string_view text, int32_t n_vocabulary) {
  if (std::ssize(text) > limits::kMaxScriptFileBytes) {
    return Status(ErrorCode::kTooLarge,
                  fmt::format("the script has {} bytes, at most {} are allowed", text.size(),
                              limits::kMaxScriptFileBytes));
  }
  auto lines = std::make_unique<Lines>();
  int64_t n_lines = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(text.substr(0, end), " \t\r");
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++n_lines > limits::kMaxScriptLines) {
      return Status(ErrorCode::kTooLarge,
                    fmt::format("the script has more than {} lines", limits::kMaxScriptLines));
    }
    if (line.empty() || line.starts_with("//")) continue;
    const std::string where = fmt::format("line {}", n_lines);
    Result<Json> json = Json::Parse(line);
    if (!json) return std::move(json.error().AddContext(where));
    Result<ScriptLine> parsed = ReadScriptLine(json->root(), n_vocabulary);
    if (!parsed) return std::move(parsed.error().AddContext(where));
    lines->entries.emplace_back(std::move(*parsed));
  }
  return ScriptBook(std::move(lines));
}

std::shared_ptr<const wire::ScriptPlay> ScriptBook::Choose(std::string_view api,
                                                           const DecodedRequest& request,
                                                           Format format) {
  const Conversation& conversation = request.conversation;
  for (Entry& entry : lines_->entries) {
    // Conditions first: they cost nothing for a line that another request takes meanwhile.
    if (entry.n_left.load(std::memory_order_relaxed) == 0 ||
        !Holds(entry.line.when, api, conversation))
      continue;
    if (!entry.Take()) continue;
    auto play = std::make_shared<wire::ScriptPlay>(entry.line.play);
    if (entry.line.out) play->ids = Tokens(Fit(*entry.line.out, api, conversation, format), format);
    return play;
  }
  metrics::Add(metrics::kScriptExhausted);
  auto play = std::make_shared<wire::ScriptPlay>();
  play->ids = Tokens(Fit(kExhausted, api, conversation, format), format);
  return play;
}

}  // namespace sluice::codec
