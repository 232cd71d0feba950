#include "kernels/linear/op.h"

#include "base/check.h"
#include "kernels/variants.h"

namespace sluice::ops::linear {
namespace {

constexpr Variant<Params> kVariants[] = {
    {.isa = Isa::kAvx512Bf16, .takes = &avx512bf16::Takes, .run = &avx512bf16::Run},
    {.isa = Isa::kAvx2, .takes = nullptr, .run = &avx2::Run},
    {.isa = Isa::kRef, .takes = nullptr, .run = &ref::Run},
};

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(!IsBlockFormat(params.weight.format));
  if (params.n_rows == 0) return;
  Choose("linear", kVariants, params, stream).run(params, stream);
}

std::vector<Isa> Isas() { return IsasOf(kVariants); }

Isa ChosenIsa(const Params& params, const Stream& stream) {
  return Choose("linear", kVariants, params, stream).isa;
}

}  // namespace sluice::ops::linear
