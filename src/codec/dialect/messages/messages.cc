#include "codec/dialect/messages/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "codec/dialect/billing_header.h"
#include "codec/dialect/field.h"
#include "codec/dialect/messages/images.h"
#include "codec/dialect/messages/open_calls.h"
#include "codec/dialect/spaced_json.h"

namespace sluice::codec::messages {
namespace {

struct RoleName {
  std::string_view name;
  Role role;
};
constexpr RoleName kRoles[] = {
    {"user", Role::kUser}, {"assistant", Role::kAssistant}, {"system", Role::kSystem}};
constexpr std::string_view kRoleNames = "one of user, assistant, system";

Status ReadMessage(const std::string& path,
                   const JsonValue& value,
                   bool extensions,
                   RawMessage& message) {
  if (!value.is_object()) return WrongValue(path, "an object", value);
  JsonValue role = value.Find("role");
  if (!role.exists()) return Missing(path + ".role", kRoleNames);
  const std::string_view name = role.is_string() ? role.AsString() : std::string_view();
  const RoleName* found = std::ranges::find(kRoles, name, &RoleName::name);
  if (found == std::end(kRoles)) return WrongValue(path + ".role", kRoleNames, role);
  message.role = found->role;
  JsonValue content = value.Find("content");
  const std::string content_path = path + ".content";
  if (!content.exists()) return Missing(content_path, "a string or a list of blocks");
  message.is_list = content.is_array();
  return ReadBlocks({.path = content_path, .place = BlockPlace::kMessage, .extensions = extensions},
                    content, message.blocks);
}

const char* NameOf(BlockType type) {
  switch (type) {
    case BlockType::kText:
      return "text";
    case BlockType::kImage:
      return "image";
    case BlockType::kDocument:
      return "document";
    case BlockType::kThinking:
    case BlockType::kRedactedThinking:
      return "thinking";
    case BlockType::kToolUse:
    case BlockType::kServerToolUse:
      return "tool_use";
    case BlockType::kToolResult:
      return "tool_result";
    case BlockType::kWebSearchResult:
      return "web_search_tool_result";
    case BlockType::kToolAddition:
      return "tool_addition";
    case BlockType::kToolReference:
      return "tool_reference";
  }
  return "";
}

// A block in a message of the wrong role.
Status Misplaced(int32_t message, BlockType type) {
  if (type == BlockType::kThinking || type == BlockType::kRedactedThinking) {
    return Status::Invalid(fmt::format(
        "messages.{}.content: thinking blocks may only be in `assistant` messages", message));
  }
  const char* role = type == BlockType::kToolAddition ? "system"
                     : type == BlockType::kToolResult ? "user"
                                                      : "assistant";
  return Status::Invalid(fmt::format("messages.{}: `{}` blocks can only be in `{}` messages",
                                     message, NameOf(type), role));
}

// Documents are told of, not read.
std::string DocumentText(const Block& block) {
  JsonValue media = block.source.Find("media_type");
  return fmt::format("[Unsupported document type: {}]",
                     media.is_string() ? media.AsString() : "unknown");
}

class Converter {
 public:
  Converter(const ConvertParams& params, std::vector<Message>& out) : params_(params), out_(out) {}

  Status Add(int32_t index, const RawMessage& raw) {
    if (raw.is_list && raw.blocks.empty() && raw.role != Role::kSystem) {
      return Status::Invalid(
          fmt::format("messages.{}: all messages must have non-empty content", index));
    }
    n_before_ = out_.size();
    if (raw.role == Role::kAssistant) return AddAssistant(index, raw.blocks);
    SLUICE_TRY(raw.role == Role::kSystem ? AddSystem(index, raw.blocks)
                                         : AddUser(index, raw.blocks));
    return calls_.Close();
  }

  Status End() { return calls_.Close(); }

 private:
  // The message that the next part of the client's message belongs to.
  Message& Begin(Role role) {
    n_parts_ = 0;
    Message& message = out_.emplace_back();
    message.role = role;
    message.continues = out_.size() - n_before_ > 1;
    return message;
  }

  void AppendText(std::string_view text, Message& message) {
    if (n_parts_++ > 0) message.text += "\n\n";
    message.text += text;
  }

  // A text, image or document, wherever all three may stand.
  Status AppendPart(const ImagePlace& place, const Block& block, Message& message) {
    if (block.type != BlockType::kImage) {
      AppendText(block.type == BlockType::kText ? block.text : DocumentText(block), message);
      return Status::Ok();
    }
    AppendText("", message);
    SLUICE_TRY(AddImage(place, block.source, message));
    if (++n_images_ > limits::kMaxImages) {
      return Status::Invalid(
          fmt::format("messages: more than {} images, the limit", limits::kMaxImages));
    }
    if (params_.reads_images) return Status::Ok();
    return Status::Invalid(fmt::format("{}: this model reads text only; send blocks of type text",
                                       message.images.back().path));
  }

  bool IsTool(std::string_view name) const {
    return std::ranges::find(params_.tools.tools, name, &RawTool::name) !=
           params_.tools.tools.end();
  }

  Status AddSystem(int32_t index, const std::vector<Block>& blocks);
  Status AddUser(int32_t index, const std::vector<Block>& blocks);
  Status AddResult(const OpenCalls::Place& place, const Block& block, std::vector<Tool>& shown);
  Status AddAssistant(int32_t index, const std::vector<Block>& blocks);
  Status AddAssistantBlock(const OpenCalls::Place& place, const Block& block, Message& message);

  const ConvertParams& params_;
  std::vector<Message>& out_;
  OpenCalls calls_;
  size_t n_before_ = 0;  // messages before the client's message
  int32_t n_parts_ = 0;  // of the message being built
  int32_t n_images_ = 0;
};

Status Converter::AddSystem(int32_t index, const std::vector<Block>& blocks) {
  Message& message = Begin(Role::kSystem);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    SLUICE_TRY(calls_.CheckAnswered(index));
    switch (block.type) {
      case BlockType::kText:
      case BlockType::kImage:
      case BlockType::kDocument:
        SLUICE_TRY(
            AppendPart({.message = index, .block = static_cast<int32_t>(i), .is_system = true},
                       block, message));
        break;
      case BlockType::kToolAddition:
        if (!IsTool(block.name)) {
          return Status::Invalid(
              fmt::format("messages.{}.content.{}: `tool_addition` references unknown tool '{}'",
                          index, i, Shorten(block.name)));
        }
        message.tools.push_back({.name = std::string(block.name)});
        break;
      default:
        return Misplaced(index, block.type);
    }
  }
  return Status::Ok();
}

// Tools that results refer to are shown behind the whole turn: what stands before it stays the
// same, wherever the client sorts the tools into its list.
Status Converter::AddUser(int32_t index, const std::vector<Block>& blocks) {
  std::vector<Tool> shown;
  Message* text = nullptr;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const int32_t n = static_cast<int32_t>(i);
    switch (block.type) {
      case BlockType::kText:
      case BlockType::kImage:
      case BlockType::kDocument:
        SLUICE_TRY(calls_.CheckAnswered(index));
        if (text == nullptr) text = &Begin(Role::kUser);
        SLUICE_TRY(AppendPart({.message = index, .block = n}, block, *text));
        break;
      case BlockType::kToolResult:
        SLUICE_TRY(AddResult({.message = index, .block = n}, block, shown));
        text = nullptr;
        break;
      default:
        return Misplaced(index, block.type);
    }
  }
  if (!shown.empty()) Begin(Role::kSystem).tools = std::move(shown);
  return Status::Ok();
}

Status Converter::AddResult(const OpenCalls::Place& place,
                            const Block& block,
                            std::vector<Tool>& shown) {
  SLUICE_TRY(calls_.Answer(place, block.id));
  Message& message = Begin(Role::kTool);
  message.tool_call_id = std::string(block.id);
  for (size_t i = 0; i < block.content.size(); ++i) {
    const Block& part = block.content[i];
    if (part.type != BlockType::kToolReference) {
      SLUICE_TRY(AppendPart(
          {.message = place.message, .block = place.block, .part = static_cast<int32_t>(i)}, part,
          message));
      continue;
    }
    if (!IsTool(part.name)) {
      return Status::Invalid(
          fmt::format("messages.{}.content.{}: tool reference '{}' not found in available tools",
                      place.message, place.block, Shorten(part.name)));
    }
    AppendText(part.name, message);
    shown.push_back({.name = std::string(part.name)});
  }
  return Status::Ok();
}

Status Converter::AddAssistant(int32_t index, const std::vector<Block>& blocks) {
  SLUICE_TRY(calls_.CheckAnswered(index));
  calls_.Begin(index);
  Message& message = Begin(Role::kAssistant);
  for (size_t i = 0; i < blocks.size(); ++i) {
    SLUICE_TRY(AddAssistantBlock({.message = index, .block = static_cast<int32_t>(i)}, blocks[i],
                                 message));
  }
  return Status::Ok();
}

Status Converter::AddAssistantBlock(const OpenCalls::Place& place,
                                    const Block& block,
                                    Message& message) {
  switch (block.type) {
    case BlockType::kText:
    case BlockType::kDocument:
      SLUICE_TRY(calls_.CheckText(place));
      if (!message.text.empty()) message.text += "\n\n";
      message.text += block.type == BlockType::kText ? block.text : DocumentText(block);
      return Status::Ok();
    case BlockType::kThinking:
      if (message.reasoning) *message.reasoning += "\n\n";
      if (!message.reasoning) message.reasoning.emplace();
      *message.reasoning += block.text;
      return Status::Ok();
    case BlockType::kRedactedThinking:
      return Status::Ok();
    case BlockType::kToolUse:
      SLUICE_TRY(calls_.Open(place, block.id));
      message.calls.push_back({.id = std::string(block.id),
                               .name = std::string(block.name),
                               .arguments = SpacedJson(block.input)});
      return Status::Ok();
    case BlockType::kServerToolUse:
    case BlockType::kWebSearchResult:
      if (params_.profile.messages_web_search_drop) return Status::Ok();
      return Status::Invalid("Unsupported content block: server tools are not supported");
    case BlockType::kImage:
      return Status::Invalid("Image in assistant message is unsupported");
    default:
      return Misplaced(place.message, block.type);
  }
}

}  // namespace

Status ReadMessages(const JsonValue& value, bool extensions, std::vector<RawMessage>& messages) {
  if (!value.is_array()) return WrongValue("messages", "an array", value);
  if (value.size() > limits::kMaxMessages) {
    return Status::Invalid(fmt::format("`messages` has {} entries, at most {} are allowed",
                                       value.size(), limits::kMaxMessages));
  }
  messages.reserve(static_cast<size_t>(value.size()));
  for (JsonValue element : value.elements()) {
    const std::string path = fmt::format("messages[{}]", messages.size());
    SLUICE_TRY(ReadMessage(path, element, extensions, messages.emplace_back()));
  }
  return Status::Ok();
}

Status ReadSystem(const JsonValue& value, RawSystem& system) {
  system.is_list = value.is_array();
  const std::string path = "system";
  return ReadBlocks({.path = path, .place = BlockPlace::kSystemField, .extensions = false}, value,
                    system.blocks);
}

void ConvertSystem(const RawSystem& system, const Profile& profile, Message& message) {
  message.role = Role::kSystem;
  int n_parts = 0;
  for (size_t i = 0; i < system.blocks.size(); ++i) {
    const std::string_view text = system.blocks[i].text;
    if (system.is_list && i == 0 && HasBillingHeader(text, LetterCase::kAny)) continue;
    if (n_parts++ > 0) message.text += "\n\n";
    message.text += text;
  }
  if (!system.is_list && profile.extensions) StripBillingHeader(message.text, LetterCase::kAny);
}

Status ConvertMessages(const ConvertParams& params,
                       const std::vector<RawMessage>& raw,
                       std::vector<Message>& messages) {
  if (raw.empty()) return Status::Invalid("messages: at least one message is required");
  messages.reserve(messages.size() + raw.size());
  Converter converter(params, messages);
  for (size_t i = 0; i < raw.size(); ++i)
    SLUICE_TRY(converter.Add(static_cast<int32_t>(i), raw[i]));
  return converter.End();
}

}  // namespace sluice::codec::messages
