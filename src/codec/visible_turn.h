// VisibleTurn: an assistant turn as its client sees it, in the one form that it keeps however
// clients write it down again: compact or spaced arguments, null or empty content, numbers as
// JavaScript prints them (spec clients.md §4). Both sides use it: the answer, of what it sends, and
// the history, of what comes back. Pure functions.

#pragma once

#include <string>
#include <string_view>

#include "codec/conversation.h"

namespace sluice::codec {

// Two turns with the same one look the same to a client. It covers the text, without white space
// around it, and names and arguments of the calls in their order; neither their ids, which clients
// change, nor the reasoning.
Digest VisibleDigest(const Message& turn);

// Of the reasoning without white space around it; of an empty text if there is none.
Digest ReasoningDigest(const Message& turn);
bool HasReasoning(const Message& turn);

// JSON text. Of one object: members by key, of one key the last, and a number by its value: 1.0 and
// 1 are the same. Of anything else: the text as it is, as a JSON string.
std::string CanonicalArguments(std::string_view arguments);

}  // namespace sluice::codec
