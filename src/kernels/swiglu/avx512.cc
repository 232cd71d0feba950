// bf16(silu(gate) * up) by AVX-512: the operations of simd/elementary.h in each lane.

#include <immintrin.h>

#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/swiglu/op.h"

namespace sluice::ops::swiglu::avx512 {
namespace {

#define SLUICE_HOT_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

// Of instructions with a mask, because g++ 12 warns of what its header does without one.
constexpr __mmask16 kAll = 0xFFFF;

SLUICE_HOT_INLINE __m512 Of(float x) { return _mm512_set1_ps(x); }

SLUICE_HOT_INLINE __m512 MulAdd(__m512 a, __m512 b, __m512 c) {
  return _mm512_add_ps(_mm512_mul_ps(a, b), c);
}

SLUICE_HOT_INLINE __m512 PowerOfTwo(__m512i exponent) {
  const __m512i biased = _mm512_add_epi32(exponent, _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, biased, 23));
}

// simd::ExpFloat32. max and min give their second operand for NaN.
SLUICE_HOT_INLINE __m512 Exp(__m512 x) {
  const __m512 round = Of(0x1.8p23F);
  const __m512 bounded =
      _mm512_maskz_min_ps(kAll, Of(89.0F), _mm512_maskz_max_ps(kAll, Of(-88.0F), x));
  const __m512 shifted = MulAdd(bounded, Of(0x1.715476p0F), round);
  const __m512 n = _mm512_sub_ps(shifted, round);
  const __m512 high = _mm512_sub_ps(bounded, _mm512_mul_ps(n, Of(0.693359375F)));
  const __m512 r = _mm512_sub_ps(high, _mm512_mul_ps(n, Of(-2.12194440e-4F)));
  __m512 p = MulAdd(Of(1.9875691500e-4F), r, Of(1.3981999507e-3F));
  p = MulAdd(p, r, Of(8.3334519073e-3F));
  p = MulAdd(p, r, Of(4.1665795894e-2F));
  p = MulAdd(p, r, Of(1.6666665459e-1F));
  p = MulAdd(p, r, Of(5.0000001201e-1F));
  const __m512 fraction = _mm512_add_ps(MulAdd(p, _mm512_mul_ps(r, r), r), Of(1.0F));
  const __m512i exponent =
      _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(round));
  const __m512i half = _mm512_maskz_srai_epi32(kAll, exponent, 1);
  const __m512 value = _mm512_mul_ps(_mm512_mul_ps(fraction, PowerOfTwo(half)),
                                     PowerOfTwo(_mm512_sub_epi32(exponent, half)));
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, Of(-87.3365F), _CMP_NLT_UQ), value);
}

SLUICE_HOT_INLINE __m512 Silu(__m512 x) {
  const __m512 negative =
      _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
  return _mm512_div_ps(x, _mm512_add_ps(Of(1.0F), Exp(negative)));
}

// ToBf16 in each lane.
SLUICE_HOT_INLINE __m256i Rounded(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd =
      _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_mov_epi32(_mm512_add_epi32(bits, half), is_nan, quiet);
  return _mm512_maskz_cvtepi32_epi16(kAll, _mm512_maskz_srli_epi32(kAll, rounded, 16));
}

SLUICE_HOT_LOOP void RunValues(const Params& params, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 16) {
    const auto mask = static_cast<__mmask16>(end - i < 16 ? (1U << (end - i)) - 1 : 0xFFFF);
    const __m512 gate = _mm512_maskz_loadu_ps(mask, params.gate + i);
    const __m512 up = _mm512_maskz_loadu_ps(mask, params.up + i);
    _mm256_mask_storeu_epi16(params.out + i, mask, Rounded(_mm512_mul_ps(Silu(gate), up)));
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const int64_t n_items = (params.n + kValues - 1) / kValues;
  stream.team.Run(n_items, [&params](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(Arithmetic::kFloat32);
    const int64_t last = end * kValues < params.n ? end * kValues : params.n;
    RunValues(params, begin * kValues, last);
  });
}

}  // namespace sluice::ops::swiglu::avx512
