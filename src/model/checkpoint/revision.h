// Revision: the digest of what rows of a model depend on, field by field. Owned by one thread.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace sluice::model {

class Revision {
 public:
  // Each field with its length, so that no two lists of fields give the same bytes.
  void Add(ConstBytes field);
  // SHA-256 in hexadecimal digits.
  std::string Hex() const;

 private:
  std::vector<std::byte> text_;
};

}  // namespace sluice::model
