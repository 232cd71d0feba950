#include "codec/dialect/token_ids.h"

#include <fmt/format.h>

#include "codec/dialect/field.h"

namespace sluice::codec {
namespace {

bool IsTokenId(const JsonValue& value, int32_t n_vocabulary) {
  return value.is(JsonKind::kInt) && value.AsInt64() >= 0 && value.AsInt64() < n_vocabulary;
}

}  // namespace

Status ReadTokenIds(std::string_view path,
                    const JsonValue& list,
                    int32_t n_vocabulary,
                    std::vector<TokenId>& ids) {
  ids.reserve(ids.size() + static_cast<size_t>(list.size()));
  int32_t i = 0;
  for (const JsonValue element : list.elements()) {
    if (!IsTokenId(element, n_vocabulary)) {
      return WrongValue(fmt::format("{}[{}]", path, i),
                        fmt::format("a token id from 0 to {}", n_vocabulary - 1), element);
    }
    ids.push_back(TokenId(static_cast<int32_t>(element.AsInt64())));
    ++i;
  }
  return Status::Ok();
}

}  // namespace sluice::codec
