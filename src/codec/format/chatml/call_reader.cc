#include "codec/format/chatml/call_reader.h"

#include <utility>

#include "base/json.h"
#include "codec/format/json_text.h"

namespace sluice::codec::chatml {
namespace {

// Of a string with its quotes.
std::string Unquoted(std::string_view quoted) {
  const Result<Json> json = Json::Parse(quoted);
  return json && json->root().is_string() ? std::string(json->root().AsString()) : "";
}

}  // namespace

void CallReader::Begin() {
  state_ = State::kInside;
  part_ = Part::kOpening;
  in_list_ = false;
  has_told_ = false;
}

CallReader::State CallReader::Take(std::string_view c) {
  if (state_ == State::kBroken) return state_;
  switch (part_) {
    case Part::kInKey:
    case Part::kValue:
      return TakeValue(c);
    case Part::kValueBegin:
      return IsSpace(c) ? state_ : BeginValue(c);
    default:
      return IsSpace(c) ? state_ : TakeOutside(c);
  }
}

// Between the values: brackets, commas, colons and the beginning of keys.
CallReader::State CallReader::TakeOutside(std::string_view c) {
  if (state_ == State::kBehind) return Break();
  const bool ends_list = c == "]" && in_list_;
  switch (part_) {
    case Part::kOpening:
      if (c == "{") return BeginObject();
      if (c != "[") return Break();
      in_list_ = true;
      part_ = Part::kObject;
      return state_;
    case Part::kObject:
      if (c == "{") return BeginObject();
      return ends_list ? state_ = State::kBehind : Break();
    case Part::kKey:
      if (c == "}") return EndObject();
      if (c != "\"") return Break();
      part_ = Part::kInKey;
      value_ = JsonStream();
      text_.clear();
      return TakeValue(c);
    case Part::kColon:
      if (c != ":") return Break();
      part_ = Part::kValueBegin;
      return state_;
    case Part::kAfterValue:
      if (c == "}") return EndObject();
      if (c != ",") return Break();
      part_ = Part::kKey;
      return state_;
    case Part::kAfterObject:
      if (ends_list) return state_ = State::kBehind;
      if (c != ",") return Break();
      part_ = Part::kObject;
      return state_;
    default:
      return Break();
  }
}

CallReader::State CallReader::BeginObject() {
  part_ = Part::kKey;
  name_.clear();
  waiting_.clear();
  has_arguments_ = false;
  has_told_ = false;
  return state_;
}

CallReader::State CallReader::BeginValue(std::string_view c) {
  part_ = Part::kValue;
  value_ = JsonStream();
  text_.clear();
  if (member_ == Member::kName && (c != "\"" || has_told_)) return Break();
  if (member_ == Member::kArguments) {
    is_quoted_ = c == "\"";
    if ((c != "{" && !is_quoted_) || std::exchange(has_arguments_, true)) return Break();
    if (!is_quoted_) Tell();
  }
  return TakeValue(c);
}

CallReader::State CallReader::TakeValue(std::string_view c) {
  written_.clear();
  bool is_taken = false;
  const JsonStream::State state = value_.Take(c, written_, is_taken);
  if (state == JsonStream::State::kBad || !KeepWritten()) return Break();
  if (state == JsonStream::State::kInside) return state_;
  is_repaired_ = is_repaired_ || value_.is_repaired();
  if (EndValue() == State::kBroken || is_taken) return state_;
  return IsSpace(c) ? state_ : TakeOutside(c);
}

// False: it is too long to be kept.
bool CallReader::KeepWritten() {
  const bool is_key = part_ == Part::kInKey;
  if (is_key || member_ == Member::kName) {
    text_ += written_;
    return text_.size() <= kMaxNameBytes;
  }
  if (member_ == Member::kOther || written_.empty()) return true;
  if (is_quoted_) {
    text_ += written_;
    return text_.size() <= kMaxWaitingBytes;
  }
  if (has_told_) {
    events_.Add(OutputKind::kArguments, written_);
    return true;
  }
  waiting_ += written_;
  return waiting_.size() <= kMaxWaitingBytes;
}

CallReader::State CallReader::EndValue() {
  if (part_ == Part::kInKey) {
    const std::string key = Unquoted(text_);
    member_ = key == "name"        ? Member::kName
              : key == "arguments" ? Member::kArguments
                                   : Member::kOther;
    part_ = Part::kColon;
    return state_;
  }
  part_ = Part::kAfterValue;
  if (member_ == Member::kOther) {
    is_repaired_ = true;
    return state_;
  }
  if (member_ == Member::kName) {
    name_ = Unquoted(text_);
    if (name_.empty()) return Break();
    if (has_arguments_) {
      is_repaired_ = true;
      Tell();
    }
    return state_;
  }
  if (!is_quoted_) return state_;
  is_repaired_ = true;
  const Result<Json> json = Json::Parse(Unquoted(text_));
  if (!json || !json->root().is_object()) return Break();
  AppendJsonText(json->root(), waiting_);
  Tell();
  return state_;
}

// False: the name is not known yet. What waited for it is told.
bool CallReader::Tell() {
  if (name_.empty()) return false;
  events_.BeginCall(name_, /*without_thought=*/false);
  has_told_ = true;
  if (!waiting_.empty()) events_.Add(OutputKind::kArguments, std::exchange(waiting_, {}));
  return true;
}

bool CallReader::EndEarly() {
  if (state_ != State::kInside) return state_ == State::kBehind;
  const bool is_between = part_ == Part::kAfterValue || part_ == Part::kAfterObject;
  if (!is_between) return false;
  if (part_ == Part::kAfterValue && EndObject() == State::kBroken) return false;
  is_repaired_ = true;
  state_ = State::kBehind;
  return true;
}

CallReader::State CallReader::EndObject() {
  if (!has_told_ && !Tell()) return Break();
  if (!has_arguments_) {
    is_repaired_ = true;
    events_.Add(OutputKind::kArguments, "{}");
  }
  events_.EndCall();
  has_told_ = false;
  part_ = Part::kAfterObject;
  return state_ = in_list_ ? State::kInside : State::kBehind;
}

}  // namespace sluice::codec::chatml
