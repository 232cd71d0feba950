#include "kernels/block_linear/op.h"

#include "base/check.h"
#include "kernels/variants.h"

namespace sluice::ops::block_linear {
namespace {

bool IsPacked(const Params& params) { return params.weight.layout == MatrixLayout::kPacked; }

constexpr Variant<Params> kVariants[] = {
    {.isa = Isa::kAvx512Bf16, .takes = &IsPacked, .run = &avx512bf16::Run},
    {.isa = Isa::kAvx2, .takes = nullptr, .run = &avx2::Run},
    {.isa = Isa::kRef, .takes = nullptr, .run = &ref::Run},
};

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(IsBlockFormat(params.weight.format));
  if (params.n_rows == 0) return;
  Choose("block_linear", kVariants, params, stream).run(params, stream);
}

std::vector<Isa> Isas() { return IsasOf(kVariants); }

Isa ChosenIsa(const Params& params, const Stream& stream) {
  return Choose("block_linear", kVariants, params, stream).isa;
}

}  // namespace sluice::ops::block_linear
