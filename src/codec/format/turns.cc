#include "codec/format/turns.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sluice::codec {
namespace {

std::vector<Turn> Join(std::span<const Message> messages) {
  std::vector<Turn> turns;
  turns.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const Role role = messages[i].role;
    const bool repeats = i > 0 && turns.back().role == role;
    if (repeats && role == Role::kLatestReminder) continue;
    if (repeats && role == Role::kUser) {
      const size_t n_before = turns.back().messages.size();
      turns.back().messages = messages.subspan(i - n_before, n_before + 1);
      continue;
    }
    turns.push_back({role, messages.subspan(i, 1)});
  }
  return turns;
}

bool IsResult(const Turn& turn) {
  return turn.role == Role::kTool && !turn.messages[0].tool_call_id.empty();
}

// The results in [begin, end) of a run of users and tools, by the position of their calls; they
// take the places of results, users stay where they are.
void OrderResults(std::span<Turn> run, const Message* caller) {
  std::unordered_map<std::string_view, size_t> position;
  if (caller != nullptr) {
    for (const ToolCall& call : caller->calls) position.emplace(call.id, position.size());
  }
  struct Placed {
    std::pair<size_t, size_t> rank;  // of its call, then as the results came
    Turn turn;
  };
  std::vector<Placed> results;
  for (const Turn& turn : run) {
    if (!IsResult(turn)) continue;
    const auto found = position.find(turn.messages[0].tool_call_id);
    const size_t call = found == position.end() ? 0 : found->second;
    results.push_back({.rank = {call, results.size()}, .turn = turn});
  }
  std::ranges::sort(results, {}, &Placed::rank);
  auto next = results.begin();
  for (Turn& turn : run) {
    if (IsResult(turn)) turn = (next++)->turn;
  }
}

bool IsOfUserSide(const Turn& turn) { return turn.role == Role::kUser || turn.role == Role::kTool; }

}  // namespace

std::vector<Turn> TurnsOf(std::span<const Message> messages) {
  std::vector<Turn> turns = Join(messages);
  const Message* caller = nullptr;  // the latest assistant message with calls
  for (size_t i = 0; i < turns.size();) {
    if (!IsOfUserSide(turns[i])) {
      if (turns[i].role == Role::kAssistant && !turns[i].messages[0].calls.empty()) {
        caller = turns[i].messages.data();
      }
      ++i;
      continue;
    }
    size_t end = i;
    while (end < turns.size() && IsOfUserSide(turns[end])) ++end;
    OrderResults(std::span(turns).subspan(i, end - i), caller);
    i = end;
  }
  return turns;
}

}  // namespace sluice::codec
