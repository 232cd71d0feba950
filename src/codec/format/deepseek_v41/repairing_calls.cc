#include "codec/format/deepseek_v41/repairing_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/json_writer.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/json_escape.h"
#include "codec/trim.h"

namespace sluice::codec::deepseek_v41 {
namespace {

constexpr std::string_view kSpace = " \n\t\r";

bool IsJson(std::string_view text) { return static_cast<bool>(Json::Parse(text)); }

const std::string_view kDsml = SpellingOf(Control::kDsml);

// Behind the token: the names that begin a tag of ours, and then a space or the tag's end.
constexpr std::string_view kInvoke = "invoke";
constexpr std::string_view kParameter = "parameter";
constexpr std::string_view kClosings[] = {" calls>", "tool_calls>"};
constexpr size_t kMaxTagNameBytes = 32;

}  // namespace

void RepairingCalls::Begin(bool at_invoke, bool without_thought) {
  without_thought_ = without_thought;
  if (!at_invoke) {
    expected_ = ">\n";
    return;
  }
  markup_ = fmt::format("<{} invoke", kDsml);
  OpenTag(State::kInvokeTag);
}

void RepairingCalls::ReadMarkup(std::string_view text) {
  if (is_well_formed_) markup_ += text;
  if (markup_.size() > kMaxWaitingBytes) is_well_formed_ = false;
}

void RepairingCalls::CompareMarkup() {
  if (markup_ != expected_) is_well_formed_ = false;
  markup_.clear();
  expected_.clear();
}

void RepairingCalls::Take(std::string_view c) {
  if (state_ != State::kValue) ReadMarkup(c);
  switch (state_) {
    case State::kInvokeTag:
      if (attributes_.Take(c)) EndInvokeTag();
      return;
    case State::kParameterTag:
      if (attributes_.Take(c)) EndParameterTag();
      return;
    case State::kBetween:
    case State::kBody:
      return TakeOutsideTag(c);
    case State::kValue:
      if (c == "<" || (c == "/" && held_ == "<")) {
        if (c == "<") FlushHeld();
        held_ = c == "<" ? "<" : "</";
        return;
      }
      FlushHeld();
      return TakeInValue(c);
    case State::kClosed:
      return;
  }
}

void RepairingCalls::TakePlain(std::string_view text) {
  if (state_ == State::kValue && (held_ != "<" || !text.starts_with('/'))) {
    FlushHeld();
    return TakeInValue(text);
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    Take(text.substr(at, end - at));
    at = end;
  }
}

void RepairingCalls::TakeOutsideTag(std::string_view c) {
  if (state_ == State::kBody && n_parameters_ == 0 && body_.size() + c.size() <= kMaxWaitingBytes) {
    body_ += c;
  }
  if (tag_ != Tag::kNone) TakeTagName(c);
  held_ = c == "<" ? "<" : c == "/" && held_ == "<" ? "</" : "";
}

// Of a tag that the token has begun: waits until its name is known.
void RepairingCalls::TakeTagName(std::string_view c) {
  tag_name_ += c;
  if (tag_ == Tag::kClosing) {
    if (state_ != State::kBetween) return;
    if (std::ranges::find(kClosings, tag_name_) != std::end(kClosings)) {
      state_ = State::kClosed;
      expected_ += fmt::format("\n</{} calls>", kDsml);
      CompareMarkup();
    }
    if (tag_name_.size() > kMaxTagNameBytes) tag_ = Tag::kNone;
    return;
  }
  const size_t begin = tag_name_.find_first_not_of(kSpace);
  if (begin == std::string::npos) {
    if (tag_name_.size() > kMaxTagNameBytes) tag_ = Tag::kNone;
    return;
  }
  const std::string_view name = std::string_view(tag_name_).substr(begin);
  const bool is_whole = name.ends_with('>') || kSpace.find(name.back()) != std::string_view::npos;
  if (!is_whole) {
    if (name.size() > kMaxTagNameBytes) tag_ = Tag::kNone;
    return;
  }
  tag_ = Tag::kNone;
  const bool ends_tag = name.ends_with('>');
  const std::string_view word = name.substr(0, name.size() - 1);
  if (word == kInvoke) {
    if (state_ == State::kBody) EndCall();  // the one before was left open
    OpenTag(State::kInvokeTag);
    if (ends_tag) EndInvokeTag();
  } else if (word == kParameter && state_ == State::kBody) {
    OpenTag(State::kParameterTag);
    if (ends_tag) EndParameterTag();
  }
}

void RepairingCalls::TakeMarkup() {
  if (state_ != State::kValue) ReadMarkup(kDsml);
  switch (state_) {
    case State::kInvokeTag:  // a tag that was never ended
      EndInvokeTag();
      held_ = {};
      return;
    case State::kParameterTag:
      EndParameterTag();
      held_ = {};
      return;
    case State::kBetween:
    case State::kBody:
      if (state_ == State::kBody && !held_.empty() && body_.ends_with(held_)) {
        body_.resize(body_.size() - held_.size());
      }
      tag_ = held_ == "<" ? Tag::kOpening : held_ == "</" ? Tag::kClosing : Tag::kNone;
      held_ = {};
      tag_name_.clear();
      if (state_ == State::kBody && tag_ == Tag::kClosing) EndCall();
      return;
    case State::kValue:
      if (held_ == "</") {
        held_ = {};
        return EndValue();
      }
      is_well_formed_ = false;
      FlushHeld();
      return TakeInValue(kDsml);
    case State::kClosed:
      return;
  }
}

void RepairingCalls::OpenTag(State tag) {
  state_ = tag;
  held_ = {};
  attributes_.Restart();
}

void RepairingCalls::EndInvokeTag() {
  state_ = State::kBetween;
  if (!attributes_.name().is_there) return;  // nothing could be called
  state_ = State::kBody;
  call_ = attributes_.name().value;
  body_.clear();
  n_parameters_ = 0;
  if (events_.n_calls() > 0) expected_ += '\n';
  expected_ += fmt::format("<{} invoke name=\"{}\">", kDsml, call_);
  CompareMarkup();
  expected_ = "\n";
  events_.BeginCall(call_, without_thought_);
}

void RepairingCalls::EndParameterTag() {
  state_ = State::kValue;
  tag_ = Tag::kNone;
  waiting_.clear();
  if (!attributes_.name().is_there) {
    type_ = Type::kSkipped;
    is_well_formed_ = false;
    return;
  }
  if (n_parameters_ > 0) expected_ += '\n';
  WriteKey(true);
  Write(": ");
  const std::string_view type = attributes_.string().value;
  type_ = type == "true" ? Type::kString : type == "false" ? Type::kJson : Type::kUnknown;
  expected_ += fmt::format("<{} parameter name=\"{}\" string=\"{}\">", kDsml, key_,
                           type_ == Type::kString ? "true" : "false");
  CompareMarkup();
  if (type_ == Type::kString) Write("\"");
}

void RepairingCalls::WriteKey(bool is_closed) {
  key_ = attributes_.name().value;
  Write(n_parameters_++ == 0 ? "{\"" : ", \"");
  AppendJsonEscaped(events_.TextOf(OutputKind::kArguments), key_);
  if (is_closed) Write("\"");
}

void RepairingCalls::TakeInValue(std::string_view text) {
  switch (type_) {
    case Type::kSkipped:
      return;
    case Type::kRaw:
      return Write(text);
    case Type::kString:
      AppendJsonEscaped(events_.TextOf(OutputKind::kArguments), text);
      return;
    case Type::kJson:
    case Type::kUnknown:
      waiting_ += text;
      if (waiting_.size() <= kMaxWaitingBytes) return;
      // Too long to wait for: as it says, or as the schema says.
      if (type_ == Type::kUnknown && IsStringBySchema()) {
        Write("\"");
        type_ = Type::kString;
      } else {
        type_ = Type::kRaw;
      }
      return TakeInValue(std::exchange(waiting_, {}));
  }
}

void RepairingCalls::FlushHeld() {
  if (!held_.empty()) TakeInValue(std::exchange(held_, {}));
}

void RepairingCalls::EndValue() {
  state_ = State::kBody;
  markup_ = fmt::format("</{}", kDsml);
  expected_ = fmt::format("</{} parameter>", kDsml);
  if (type_ == Type::kString) return Write("\"");
  if (type_ == Type::kRaw) is_well_formed_ = false;  // nobody has looked whether it is JSON
  if (type_ == Type::kSkipped || type_ == Type::kRaw) return;
  const bool is_json = IsJson(waiting_);
  const bool is_broken = !is_json && !(type_ == Type::kJson && keeps_broken_values_);
  const bool is_text = is_broken || (type_ == Type::kUnknown && IsStringBySchema());
  if (is_text || !is_json) is_well_formed_ = false;
  is_text ? WriteString(waiting_) : WriteJson(waiting_);
}

void RepairingCalls::WriteString(std::string_view text) {
  Write("\"");
  AppendJsonEscaped(events_.TextOf(OutputKind::kArguments), text);
  Write("\"");
}

// Half a surrogate pair, which some clients' readers refuse, is no character.
void RepairingCalls::WriteJson(std::string_view text) {
  if (!HasLoneSurrogate(text)) return Write(text);
  is_well_formed_ = false;
  Write(ReplaceLoneSurrogates(text));
}

bool RepairingCalls::IsStringBySchema() const {
  const auto tool = std::ranges::find(tools_, call_, &Tool::name);
  if (tool == tools_.end() || tool->parameters.empty()) return false;
  const Result<Json> schema = Json::Parse(tool->parameters);
  if (!schema) return false;
  const JsonValue type = schema->root().Find("properties").Find(key_).Find("type");
  return type.is_string() && type.AsString() == "string";
}

void RepairingCalls::EndCall() {
  if (n_parameters_ > 0) {
    Write("}");
  } else {
    const std::string_view body = Trim(body_, kSpace);
    WriteJson(body.starts_with('{') && IsJson(body) ? body : "{}");
  }
  expected_ += fmt::format("\n</{} invoke>", kDsml);
  events_.EndCall();
  state_ = State::kBetween;
}

void RepairingCalls::End(bool at_limit) {
  switch (state_) {
    case State::kBetween:
    case State::kClosed:
      return;
    case State::kInvokeTag:
      attributes_.Cut();
      if (attributes_.name().is_closed) EndInvokeTag();
      break;
    case State::kBody: {
      if (!at_limit) return EndCall();
      const std::string_view body = Trim(body_, kSpace);
      if (n_parameters_ == 0 && body.starts_with('{')) Write(body);
      break;
    }
    case State::kParameterTag:
      attributes_.Cut();
      if (attributes_.name().is_there) WriteKey(attributes_.name().is_closed);
      break;
    case State::kValue:
      FlushHeld();
      if (type_ == Type::kUnknown && IsStringBySchema()) {
        Write("\"");
        type_ = Type::kString;
        TakeInValue(std::exchange(waiting_, {}));
      }
      if (!waiting_.empty()) Write(waiting_);
      break;
  }
  is_cut_ = true;
}

}  // namespace sluice::codec::deepseek_v41
