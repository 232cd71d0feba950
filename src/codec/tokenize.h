// The bodies of /tokenize and /detokenize, in the form of vLLM's (spec http-api.md §7). Pure
// functions.

#pragma once

#include <span>
#include <string_view>

#include "base/json_writer.h"
#include "base/result.h"
#include "codec/inquiry.h"

namespace sluice::codec {

// {"prompt": text, ...} or a Chat body, to {"count", "max_model_len", "tokens", "token_strs"}.
// Of a text: begin-of-sentence and the text, as /v1/completions has it, or the text alone. Control
// tokens that it spells are text. A prompt may be longer than the model's context.
Result<InquiryAnswer> Tokenize(const Dialect& chat,
                               std::string_view body,
                               const PrepareContext& context);

// {"tokens": ids} to {"prompt": text}.
Result<InquiryAnswer> Detokenize(const Dialect& chat,
                                 std::string_view body,
                                 const PrepareContext& context);

// JSON lists of ids, and of what tokenizer.json calls them.
void WriteIds(std::span<const TokenId> ids, JsonWriter& w);
void WriteTokenNames(std::span<const TokenId> ids, Format format, JsonWriter& w);

}  // namespace sluice::codec
