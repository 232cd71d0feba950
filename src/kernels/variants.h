// The variants of an operator: the same function for several instruction sets, and which one runs.
// For op.cc of each operator, and for those who tell about all.

#pragma once

#include <string_view>
#include <vector>

#include "base/check.h"
#include "tensor/isa.h"
#include "tensor/stream.h"

namespace sluice::ops {

template <typename Params>
struct Variant {
  Isa isa;
  // Whether it knows what is asked for: formats and layouts, never the number of rows, so that a
  // row does not know how many go with it. Null: everything.
  bool (*takes)(const Params& params);
  void (*run)(const Params& params, Stream& stream);
};

// variants: best first; the last one takes everything.
template <typename Params, size_t kN>
const Variant<Params>& Choose(std::string_view op,
                              const Variant<Params> (&variants)[kN],
                              const Params& params,
                              const Stream& stream) {
  IsaSet isas = stream.isas.Of(op);
  if (stream.arithmetic == Arithmetic::kExact) isas = {Isa::kRef};
  for (const Variant<Params>& variant : variants) {
    const bool takes = variant.takes == nullptr || variant.takes(params);
    if (takes && isas.Has(variant.isa)) return variant;
  }
  SLUICE_CHECK(false && "the last variant takes everything");
}

template <typename Params, size_t kN>
std::vector<Isa> IsasOf(const Variant<Params> (&variants)[kN]) {
  std::vector<Isa> isas;
  for (const Variant<Params>& variant : variants) isas.push_back(variant.isa);
  return isas;
}

// An operator with variants, and what for.
struct OpIsas {
  std::string_view op;
  std::vector<Isa> isas;  // best first
};
std::vector<OpIsas> OpsWithVariants();

}  // namespace sluice::ops
