#include "kernels/gqa_attention/op.h"

#include "base/check.h"
#include "kernels/variants.h"

namespace sluice::ops::gqa_attention {
namespace {

constexpr Variant<Params> kVariants[] = {
    {.isa = Isa::kAvx512Bf16, .takes = nullptr, .run = &avx512bf16::Run},
    {.isa = Isa::kAvx2, .takes = nullptr, .run = &avx2::Run},
    {.isa = Isa::kRef, .takes = nullptr, .run = &ref::Run},
};

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.head_dim > 0 && params.head_dim <= kMaxHeadDim && params.head_dim % 2 == 0);
  SLUICE_CHECK(params.n_heads % params.n_kv_heads == 0 &&
               params.n_heads / params.n_kv_heads <= kMaxGroup);
  for (int64_t i = 0; i < params.n_sequences; ++i) {
    const Sequence& sequence = params.sequences[i];
    SLUICE_CHECK(sequence.keys.rows_per_block % 64 == 0 &&
                 sequence.values.rows_per_block % 64 == 0 &&
                 sequence.keys.row_bytes == sequence.values.row_bytes);
  }
  Choose("gqa_attention", kVariants, params, stream).run(params, stream);
}

std::vector<Isa> Isas() { return IsasOf(kVariants); }

Isa ChosenIsa(const Params& params, const Stream& stream) {
  return Choose("gqa_attention", kVariants, params, stream).isa;
}

}  // namespace sluice::ops::gqa_attention
