// Inquiry: an endpoint that answers a request body at once, without a model: how many tokens it
// has, which ones, what text ids stand for, what prompt a request becomes (spec http-api.md §6 and
// §7). Functions of body and context; they run on the prep pool.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/dialect.h"

namespace sluice::codec {

struct InquiryAnswer {
  std::string body;                         // JSON text
  std::vector<std::string> ignored_fields;  // as of Prepared
};

struct Inquiry {
  enum class Kind : uint8_t { kCountTokens, kTokenize, kDetokenize, kRender };

  Kind kind;
  Api api;                             // whose errors it has, and for kRender whose body
  std::span<const char* const> paths;  // POST
  Result<InquiryAnswer> (*answer)(const Dialect& dialect,
                                  std::string_view body,
                                  const PrepareContext& context);
};
std::span<const Inquiry> Inquiries();

// What `/render` tells of a request, as one JSON object.
std::string RenderJson(const Prepared& prepared, const PrepareContext& context);

// The prompt's tokens as text, in which bytes that are not UTF-8 are U+FFFD.
std::string TextOf(std::span<const TokenId> ids, Format format);

}  // namespace sluice::codec
