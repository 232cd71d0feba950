#include "kernels/swiglu/op.h"

#include "kernels/variants.h"

namespace sluice::ops::swiglu {
namespace {

constexpr Variant<Params> kVariants[] = {
    {.isa = Isa::kAvx512, .takes = nullptr, .run = &avx512::Run},
    {.isa = Isa::kAvx2, .takes = nullptr, .run = &avx2::Run},
    {.isa = Isa::kRef, .takes = nullptr, .run = &ref::Run},
};

}  // namespace

void Run(const Params& params, Stream& stream) {
  Choose("swiglu", kVariants, params, stream).run(params, stream);
}

std::vector<Isa> Isas() { return IsasOf(kVariants); }

Isa ChosenIsa(const Params& params, const Stream& stream) {
  return Choose("swiglu", kVariants, params, stream).isa;
}

}  // namespace sluice::ops::swiglu
