// What a request refers to by id, in place of the reference (spec recipe.md §6 and §7.4). Reads the
// store; otherwise pure.

#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/dialect.h"
#include "codec/dialect/responses/body.h"
#include "codec/dialect/responses/items.h"

namespace sluice::codec::responses {

struct ResolvedInput {
  std::deque<Json> documents;    // of what was referred to
  std::vector<InputItem> items;  // history first; none of a text
  std::string previous;          // id of the response that was gone on from; empty: none
  int64_t n_history_bytes = 0;
};

// The items of the previous response and its output, and what else says where history is: refused
// if it is not here.
Status ResolvePrevious(const Body& body, const PrepareContext& context, ResolvedInput& resolved);

// The items of `input` with stored ones in place of references.
Status ResolveInput(const Body& body, const PrepareContext& context, ResolvedInput& resolved);

// A JSON array of all items, a text as the message it stands for. Empty: more than
// kMaxStoredResponseBytes.
std::string KeptInput(const Body& body, const ResolvedInput& resolved);

}  // namespace sluice::codec::responses
