#include "model/checkpoint/revision.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "base/sha256.h"

namespace sluice::model {

void Revision::Add(ConstBytes field) {
  const uint64_t n_bytes = field.size();
  const ConstBytes length = std::as_bytes(std::span(&n_bytes, 1));
  text_.insert(text_.end(), length.begin(), length.end());
  text_.insert(text_.end(), field.begin(), field.end());
}

std::string Revision::Hex() const {
  std::string hex;
  for (const std::byte byte : Sha256(text_)) hex += fmt::format("{:02x}", static_cast<int>(byte));
  return hex;
}

}  // namespace sluice::model
