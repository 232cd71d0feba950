#include "kernels/index_score/op.h"

#include "base/check.h"
#include "kernels/variants.h"

namespace sluice::ops::index_score {
namespace {

constexpr Variant<Params> kVariants[] = {
    {.isa = Isa::kAvx512Bf16, .takes = nullptr, .run = &avx512bf16::Run},
    {.isa = Isa::kRef, .takes = nullptr, .run = &ref::Run},
};

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.head_dim % 32 == 0 && params.head_dim <= kMaxHeadDim);
  SLUICE_CHECK(params.n_heads * params.head_dim <= kMaxQuery);
  Choose("index_score", kVariants, params, stream).run(params, stream);
}

std::vector<Isa> Isas() { return IsasOf(kVariants); }

Isa ChosenIsa(const Params& params, const Stream& stream) {
  return Choose("index_score", kVariants, params, stream).isa;
}

}  // namespace sluice::ops::index_score
