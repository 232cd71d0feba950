// A conversation of any texts: no crash, and no text of it is a control token. Input: a byte of
// flags, then records of a byte that says what comes and a text ended by 0.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/format/deepseek_v41/render.h"
#include "codec/sample_format_test_impl.h"
#include "codec/turn_memory.h"

namespace {

using sluice::codec::Conversation;
using sluice::codec::Message;
using sluice::codec::Role;

void AddRecord(uint8_t what, std::string text, Conversation& conversation) {
  constexpr Role kRoles[] = {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool,
                             Role::kLatestReminder};
  const Role role = kRoles[what % 5];
  Message message{.role = role, .text = text};
  if (role == Role::kTool && (what & 64) != 0) message.tool_call_id = text.substr(0, 1);
  if (role == Role::kAssistant) {
    if ((what & 64) != 0) message.reasoning = text;
    if ((what & 128) != 0) {
      message.calls.push_back({.id = text.substr(0, 1), .name = text, .arguments = text});
    }
  }
  if (role == Role::kSystem && (what & 64) != 0) {
    message.tools.push_back({.name = text, .description = text, .parameters = {}});
  }
  conversation.messages.push_back(std::move(message));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::codec::deepseek_v41;
  if (size == 0) return 0;
  Conversation conversation;
  conversation.thinking = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) {
    conversation.tools.push_back({.name = "f", .description = {}, .parameters = "{\"a\":1e5}"});
  }
  if ((data[0] & 4) != 0) conversation.tool_choice = sluice::codec::ToolChoice::kRequired;
  if ((data[0] & 8) != 0) {
    conversation.response_format = sluice::codec::ResponseFormat::kJsonObject;
  }
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  while (!rest.empty() && conversation.messages.size() < 64) {
    const auto what = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('\0'), rest.size());
    std::string text;
    sluice::AppendValidUtf8(text, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    AddRecord(what, std::move(text), conversation);
  }
  if ((data[0] & 16) != 0 && !conversation.messages.empty() &&
      conversation.messages.back().role == Role::kAssistant) {
    conversation.messages.back().is_prefix = true;
  }

  const sluice::codec::Prompt prompt = Render(conversation, {});
  const auto& format = sluice::codec::SampleFormat();
  const std::vector<sluice::TokenId> ids = Encode(prompt, format).ids;
  std::string text;
  size_t n_controls = 0;
  for (const sluice::TokenId id : ids) {
    text += format.text(id);
    n_controls += format.vocabulary().is_added(id) ? 1 : 0;
  }
  SLUICE_CHECK(text == prompt.text);
  SLUICE_CHECK(n_controls == prompt.marks.size());
  static sluice::codec::TurnMemory turns(1 << 20);  // in which nothing is
  SLUICE_CHECK(Encode(prompt, format, &turns).ids == ids);
  return 0;
}
