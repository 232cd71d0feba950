// Input items of a Responses request as messages (spec recipe.md §7.4). Shape first, meaning later:
// the order of checks is recipe.md §6.1.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect/responses/tools.h"
#include "codec/profile.h"

namespace sluice::codec::responses {

enum class ItemKind : uint8_t {
  kMessage,
  kReasoning,
  kFunctionCall,
  kFunctionOutput,
  kCustomCall,
  kCustomOutput,
  kSearchCall,
  kSearchOutput,
  kWebSearchCall,
  kReference,
  kOther,
};
ItemKind KindOf(const JsonValue& item);

// Types of all that `input` holds.
Status CheckInputShape(const JsonValue& input, const Profile& profile);

// An item and where it stands in `input`; -1: in what the request refers to.
struct InputItem {
  JsonValue value;  // its shape is checked, and it is no reference
  int32_t index = -1;
};

// Reads items one after the other. Calls that stand together are one turn of the assistant, whose
// results follow it, both in the order of their ids. Thread-compatible.
class Transcript {
 public:
  struct Params {
    ToolNames& names;
    std::vector<Message>& messages;
    std::vector<std::string>& ignored;  // the places of items that mean nothing here
    bool reads_images;
  };
  explicit Transcript(const Params& params) : params_(params) {}

  Status Add(const InputItem& item);
  Status AddUser(std::string_view text);
  // Behind the last item: no call is open.
  Status Close();

 private:
  struct Call {
    ToolCall call;
    bool is_answered = false;
    Message result;
    std::vector<Message> notices;  // directly behind the result
  };

  // `notice_place`: where a notice about the output before goes; null: that was none.
  Status AddMessage(const InputItem& item, std::vector<Message>* notice_place);
  void AddAssistant(Message message);
  void AddReasoning(const JsonValue& item);
  Status AddCall(const InputItem& item, ItemKind kind);
  Status AddOutput(const InputItem& item, ItemKind kind);
  Status ReadOutput(const InputItem& item, ItemKind kind, Message& result);
  Status FindTools(const JsonValue& list, std::string& text);

  const Params params_;
  std::vector<Call> calls_;                          // of the group
  std::map<std::string_view, size_t> call_indices_;  // by id
  std::set<std::string_view> seen_ids_;              // of the whole request
  size_t n_open_ = 0;                                // calls without a result
  std::vector<Message>* notice_place_ = nullptr;     // for the item that comes next
  std::vector<Message> loose_;  // results that name no call, met while a call was open
  std::vector<Tool> found_;     // by tool_search, in this group
  int64_t n_found_ = 0;         // in the whole request
};

}  // namespace sluice::codec::responses
