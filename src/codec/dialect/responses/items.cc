#include "codec/dialect/responses/items.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/json_writer.h"
#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/responses/content.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::responses {
namespace {

struct KindName {
  std::string_view name;
  ItemKind kind;
};
constexpr KindName kKinds[] = {
    {"message", ItemKind::kMessage},
    {"reasoning", ItemKind::kReasoning},
    {"function_call", ItemKind::kFunctionCall},
    {"function_call_output", ItemKind::kFunctionOutput},
    {"custom_tool_call", ItemKind::kCustomCall},
    {"custom_tool_call_output", ItemKind::kCustomOutput},
    {"tool_search_call", ItemKind::kSearchCall},
    {"tool_search_output", ItemKind::kSearchOutput},
    {"web_search_call", ItemKind::kWebSearchCall},
    {"item_reference", ItemKind::kReference},
};

struct RoleName {
  std::string_view name;
  Role role;
  bool is_developer;
};
constexpr RoleName kRoles[] = {{"user", Role::kUser, false},
                               {"assistant", Role::kAssistant, false},
                               {"system", Role::kSystem, false},
                               {"developer", Role::kSystem, true}};

std::string_view StringAt(const JsonValue& object, std::string_view key) {
  JsonValue value = object.Find(key);
  return value.is_string() ? value.AsString() : std::string_view();
}

// Where an item stands, for errors.
std::string PlaceOf(const InputItem& item) {
  return item.index < 0 ? "previous_response_id" : fmt::format("input[{}]", item.index);
}

// The member `key` must be a string; `is_optional`: or null or absent.
Status CheckString(const std::string& path,
                   const JsonValue& item,
                   std::string_view key,
                   bool is_optional = false) {
  std::optional<std::string_view> text;
  std::string member = fmt::format("{}.{}", path, key);
  SLUICE_TRY(ReadString(member, item.Find(key), text));
  return text || is_optional ? Status::Ok() : Missing(member, "a string");
}

Status CheckReasoningShape(const std::string& path, const JsonValue& item) {
  JsonValue content = item.Find("content");
  if (!content.exists() || content.is_null()) return Status::Ok();
  if (!content.is_array()) return WrongValue(path + ".content", "an array", content);
  int32_t i = 0;
  for (JsonValue part : content.elements())
    SLUICE_TRY(CheckString(fmt::format("{}.content[{}]", path, i++), part, "text"));
  return Status::Ok();
}

Status CheckOutputShape(const std::string& path,
                        const JsonValue& item,
                        bool is_optional,
                        const Profile& profile) {
  SLUICE_TRY(CheckString(path, item, "call_id", /*is_optional=*/true));
  JsonValue output = item.Find("output");
  if (is_optional && (!output.exists() || output.is_null())) return Status::Ok();
  if (!output.exists()) return Missing(path + ".output", "a string or a list of blocks");
  return CheckContentShape(path + ".output", output, profile);
}

Status CheckFoundShape(const std::string& path, const JsonValue& item) {
  SLUICE_TRY(CheckString(path, item, "call_id", /*is_optional=*/true));
  JsonValue list = item.Find("tools");
  if (!list.is_array()) return WrongValue(path + ".tools", "an array", list);
  int32_t i = 0;
  for (JsonValue element : list.elements()) {
    RawTool tool;
    SLUICE_TRY(ReadTool(fmt::format("{}.tools[{}]", path, i++), element, tool));
  }
  return Status::Ok();
}

Status CheckMessageShape(const std::string& path, const JsonValue& item, const Profile& profile) {
  constexpr std::string_view kNames = "one of user, assistant, system, developer";
  JsonValue role = item.Find("role");
  if (!role.exists()) return Missing(path + ".role", kNames);
  if (std::ranges::find(kRoles, StringAt(item, "role"), &RoleName::name) == std::end(kRoles))
    return WrongValue(path + ".role", kNames, role);
  JsonValue content = item.Find("content");
  if (!content.exists()) return Missing(path + ".content", "a string or a list of blocks");
  return CheckContentShape(path + ".content", content, profile);
}

Status CheckItemShape(const std::string& path, const JsonValue& item, const Profile& profile) {
  if (!item.is_object()) return WrongValue(path, "an object", item);
  JsonValue type = item.Find("type");
  if (type.exists() && !type.is_null() && !type.is_string())
    return WrongValue(path + ".type", "a string", type);
  const ItemKind kind = KindOf(item);
  switch (kind) {
    case ItemKind::kMessage:
      return CheckMessageShape(path, item, profile);
    case ItemKind::kReasoning:
      return CheckReasoningShape(path, item);
    case ItemKind::kFunctionCall:
    case ItemKind::kCustomCall:
      SLUICE_TRY(CheckString(path, item, "call_id"));
      SLUICE_TRY(CheckString(path, item, "name"));
      SLUICE_TRY(CheckString(path, item, "namespace", /*is_optional=*/true));
      return CheckString(path, item, kind == ItemKind::kCustomCall ? "input" : "arguments");
    case ItemKind::kFunctionOutput:
      return CheckOutputShape(path, item, /*is_optional=*/false, profile);
    case ItemKind::kCustomOutput:
      return CheckOutputShape(path, item, /*is_optional=*/true, profile);
    case ItemKind::kSearchCall:
      return CheckString(path, item, "call_id", /*is_optional=*/true);
    case ItemKind::kSearchOutput:
      return CheckFoundShape(path, item);
    case ItemKind::kReference:
      return profile.extensions ? CheckString(path, item, "id") : Status::Ok();
    case ItemKind::kWebSearchCall:
      return Status::Ok();
    case ItemKind::kOther:
      break;
  }
  return type.is_string() ? Status::Ok() : Missing(path + ".type", "the kind of the item");
}

Status EmptyCallId(const InputItem& item) {
  return Status::Invalid(
      fmt::format("Invalid '{}.call_id': empty string. Expected a string with minimum length 1, "
                  "but got an empty string instead.",
                  PlaceOf(item)));
}

Status NoOutput(std::string_view call_id) {
  return Status::Invalid(fmt::format("No tool output found for tool call {}.", Shorten(call_id)));
}

// Clients tell in such a message how they have resized the image of the output before it.
bool IsNotice(const JsonValue& item) {
  JsonValue content = item.Find("content");
  if (StringAt(item, "role") != "developer" || !content.is_array() || content.size() != 1)
    return false;
  JsonValue block = *content.elements().begin();
  const std::string_view text = StringAt(block, "text");
  return StringAt(block, "type") == "input_text" && text.starts_with("<image_resize_notice>") &&
         text.ends_with("</image_resize_notice>");
}

// A tool as the model is told of it in a search's result.
void WriteFound(const RawTool* space, const RawTool& tool, JsonWriter& w) {
  auto text = [&w](std::string_view value) { value.empty() ? w.Null() : w.String(value); };
  w.Object();
  w.Key("type").String("function");
  w.Key("name").String(tool.name);
  w.Key("description");
  text(tool.description.value_or(""));
  w.Key("parameters");
  tool.parameters.exists() ? w.Raw(tool.parameters.ToText()) : w.Null();
  w.Key("strict");
  tool.strict ? w.Bool(*tool.strict) : w.Null();
  if (space != nullptr) {
    w.Key("namespace").Object().Key("name").String(space->name).Key("description");
    text(space->description.value_or(""));
    w.EndObject();
  }
  w.EndObject();
}

}  // namespace

ItemKind KindOf(const JsonValue& item) {
  JsonValue type = item.Find("type");
  if (type.is_string()) {
    const KindName* found = std::ranges::find(kKinds, type.AsString(), &KindName::name);
    return found == std::end(kKinds) ? ItemKind::kOther : found->kind;
  }
  if (item.Find("role").exists()) return ItemKind::kMessage;
  return item.Find("id").is_string() ? ItemKind::kReference : ItemKind::kOther;
}

Status CheckInputShape(const JsonValue& input, const Profile& profile) {
  if (input.is_string()) return Status::Ok();
  if (!input.is_array()) return WrongValue("input", "a string or a list of input items", input);
  if (input.size() > limits::kMaxMessages) {
    return Status::InvalidField("input", fmt::format("`input` has {} items, at most {} are allowed",
                                                     input.size(), limits::kMaxMessages));
  }
  int32_t i = 0;
  for (JsonValue item : input.elements())
    SLUICE_TRY(CheckItemShape(fmt::format("input[{}]", i++), item, profile));
  return Status::Ok();
}

Status Transcript::Add(const InputItem& item) {
  const ItemKind kind = KindOf(item.value);
  std::vector<Message>* notice_place = std::exchange(notice_place_, nullptr);
  switch (kind) {
    case ItemKind::kMessage:
      return AddMessage(item, notice_place);
    case ItemKind::kReasoning:
      SLUICE_TRY(Close());
      AddReasoning(item.value);
      return Status::Ok();
    case ItemKind::kFunctionCall:
    case ItemKind::kCustomCall:
      return AddCall(item, kind);
    case ItemKind::kSearchCall:
      // One without an id was run by the service itself.
      return item.value.Find("call_id").is_string() ? AddCall(item, kind) : Status::Ok();
    case ItemKind::kFunctionOutput:
    case ItemKind::kCustomOutput:
    case ItemKind::kSearchOutput:
      return AddOutput(item, kind);
    case ItemKind::kWebSearchCall:
      return Close();
    case ItemKind::kReference:
    case ItemKind::kOther:
      break;
  }
  if (item.index >= 0 && std::ssize(params_.ignored) < limits::kMaxIgnoredFieldsListed)
    params_.ignored.push_back(PlaceOf(item));
  return Status::Ok();
}

Status Transcript::AddUser(std::string_view text) {
  SLUICE_TRY(Close());
  params_.messages.push_back({.role = Role::kUser, .text = std::string(text)});
  return Status::Ok();
}

Status Transcript::AddMessage(const InputItem& item, std::vector<Message>* notice_place) {
  const bool is_notice = notice_place != nullptr && IsNotice(item.value);
  if (!is_notice) SLUICE_TRY(Close());
  const RoleName* role = std::ranges::find(kRoles, StringAt(item.value, "role"), &RoleName::name);
  Message message{.role = role->role, .is_developer = role->is_developer};
  SLUICE_TRY(
      ReadContent({.item = PlaceOf(item), .field = "content", .reads_images = params_.reads_images},
                  item.value.Find("content"), message));
  if (message.role == Role::kAssistant) {
    AddAssistant(std::move(message));
  } else {
    (is_notice ? *notice_place : params_.messages).push_back(std::move(message));
  }
  return Status::Ok();
}

void Transcript::AddAssistant(Message message) {
  std::vector<Message>& messages = params_.messages;
  if (messages.empty() || messages.back().role != Role::kAssistant ||
      !messages.back().calls.empty()) {
    messages.push_back(std::move(message));
    return;
  }
  if (message.text.empty()) return;
  std::string& text = messages.back().text;
  if (!text.empty()) text += "\n\n";
  text += message.text;
}

void Transcript::AddReasoning(const JsonValue& item) {
  std::string text;
  bool is_first = true;
  for (JsonValue part : item.Find("content").elements()) {
    if (!std::exchange(is_first, false)) text += '\n';
    text += StringAt(part, "text");
  }
  if (text.empty()) return;
  std::vector<Message>& messages = params_.messages;
  if (messages.empty() || messages.back().role != Role::kAssistant ||
      !messages.back().text.empty() || !messages.back().calls.empty()) {
    messages.push_back({.role = Role::kAssistant, .reasoning = std::move(text)});
    return;
  }
  std::optional<std::string>& reasoning = messages.back().reasoning;
  reasoning = reasoning ? *reasoning + '\n' + text : text;
}

Status Transcript::AddCall(const InputItem& item, ItemKind kind) {
  if (n_open_ == 0) SLUICE_TRY(Close());  // a group whose calls all have their results
  const JsonValue& value = item.value;
  const std::string_view id = StringAt(value, "call_id");
  if (id.empty()) return EmptyCallId(item);
  if (!seen_ids_.insert(id).second)
    return Status::Invalid(fmt::format("Duplicate 'call_id': {}.", Shorten(id)));
  Call call;
  call.call.id = std::string(id);
  if (kind == ItemKind::kSearchCall) {
    JsonValue arguments = value.Find("arguments");
    call.call.name = kToolSearch;
    call.call.arguments = arguments.is_string() ? std::string(arguments.AsString())
                          : arguments.exists()  ? arguments.ToText()
                                                : "{}";
  } else {
    call.call.name = params_.names.Of(StringAt(value, "namespace"), StringAt(value, "name"));
  }
  if (kind == ItemKind::kFunctionCall) call.call.arguments = StringAt(value, "arguments");
  if (kind == ItemKind::kCustomCall) {
    JsonWriter w(call.call.arguments);
    w.Object().Key("input").String(StringAt(value, "input")).EndObject();
  }
  call_indices_.emplace(id, calls_.size());
  calls_.push_back(std::move(call));
  ++n_open_;
  return Status::Ok();
}

Status Transcript::AddOutput(const InputItem& item, ItemKind kind) {
  JsonValue id = item.value.Find("call_id");
  if (!id.is_string()) {
    if (n_open_ == 0) SLUICE_TRY(Close());
    std::vector<Message>& place = n_open_ == 0 ? params_.messages : loose_;
    place.push_back({.role = Role::kTool});
    SLUICE_TRY(ReadOutput(item, kind, place.back()));
    if (n_open_ == 0) SLUICE_TRY(Close());  // what a search without a call has found
    notice_place_ = &place;
    return Status::Ok();
  }
  if (id.AsString().empty()) return EmptyCallId(item);
  auto found = call_indices_.find(id.AsString());
  if (found == call_indices_.end() && !seen_ids_.contains(id.AsString())) {
    return Status::Invalid(
        fmt::format("No tool call found for tool output with call_id {}.", Shorten(id.AsString())));
  }
  if (found == call_indices_.end() || calls_[found->second].is_answered) {
    return Status::Invalid(
        fmt::format("Duplicate tool output for call_id: {}.", Shorten(id.AsString())));
  }
  Call& call = calls_[found->second];
  call.is_answered = true;
  call.result = {.role = Role::kTool, .tool_call_id = call.call.id};
  --n_open_;
  SLUICE_TRY(ReadOutput(item, kind, call.result));
  notice_place_ = &call.notices;
  return Status::Ok();
}

Status Transcript::ReadOutput(const InputItem& item, ItemKind kind, Message& result) {
  if (kind == ItemKind::kSearchOutput) return FindTools(item.value.Find("tools"), result.text);
  JsonValue output = item.value.Find("output");
  if (!output.exists() || output.is_null()) return Status::Ok();
  return ReadContent(
      {.item = PlaceOf(item), .field = "output", .reads_images = params_.reads_images}, output,
      result);
}

// The tools that a search has found: as the text of its result, and for the model to call.
Status Transcript::FindTools(const JsonValue& list, std::string& text) {
  JsonWriter w(text);
  w.Array();
  auto find = [&](const RawTool* space, const RawTool& tool) {
    if (tool.kind != RawTool::Kind::kFunction) return;
    const std::string_view name_space = space == nullptr ? std::string_view() : space->name;
    std::string name = params_.names.Has(name_space, tool.name)
                           ? params_.names.Of(name_space, tool.name)
                           : params_.names.Add(name_space, tool.name);
    OfferedTool offered = OfferFunction(space, tool, std::move(name));
    offered.tool.parameters = ToolSchemaText(tool.parameters);
    offered.tool.is_deferred = true;
    found_.push_back(std::move(offered.tool));
    WriteFound(space, tool, w);
  };
  for (JsonValue element : list.elements()) {
    RawTool tool;
    SLUICE_TRY(ReadTool("tools", element, tool));
    n_found_ += std::max<int64_t>(1, std::ssize(tool.members));
    if (n_found_ > limits::kMaxFoundTools) {
      return Status::InvalidField("input",
                                  fmt::format("the results of tool_search in `input` list more "
                                              "than {} tools",
                                              limits::kMaxFoundTools));
    }
    find(nullptr, tool);
    for (const RawTool& member : tool.members) find(&tool, member);
  }
  w.EndArray();
  return Status::Ok();
}

Status Transcript::Close() {
  if (n_open_ > 0) {
    auto open = std::ranges::find(calls_, false, &Call::is_answered);
    return NoOutput(open->call.id);
  }
  std::vector<Message>& messages = params_.messages;
  if (!calls_.empty()) {
    std::ranges::sort(calls_, {},
                      [](const Call& call) -> const std::string& { return call.call.id; });
    if (messages.empty() || messages.back().role != Role::kAssistant)
      messages.push_back({.role = Role::kAssistant});
    Message& assistant = messages.back();
    for (Call& call : calls_) assistant.calls.push_back(std::move(call.call));
    for (Call& call : calls_) {
      messages.push_back(std::move(call.result));
      std::ranges::move(call.notices, std::back_inserter(messages));
    }
    calls_.clear();
    call_indices_.clear();
  }
  if (!found_.empty()) {
    messages.push_back({.role = Role::kSystem, .tools = std::move(found_)});
    found_.clear();
  }
  std::ranges::move(loose_, std::back_inserter(messages));
  loose_.clear();
  return Status::Ok();
}

}  // namespace sluice::codec::responses
