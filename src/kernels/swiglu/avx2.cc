// bf16(silu(gate) * up) by AVX2: the operations of simd/elementary.h in each lane.

#include <immintrin.h>

#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/swiglu/op.h"

namespace sluice::ops::swiglu::avx2 {
namespace {

#define SLUICE_HOT_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

SLUICE_HOT_INLINE __m256 Of(float x) { return _mm256_set1_ps(x); }

SLUICE_HOT_INLINE __m256 MulAdd(__m256 a, __m256 b, __m256 c) {
  return _mm256_add_ps(_mm256_mul_ps(a, b), c);
}

SLUICE_HOT_INLINE __m256 PowerOfTwo(__m256i exponent) {
  const __m256i biased = _mm256_add_epi32(exponent, _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

// simd::ExpFloat32. max and min give their second operand for NaN.
SLUICE_HOT_INLINE __m256 Exp(__m256 x) {
  const __m256 round = Of(0x1.8p23F);
  const __m256 bounded = _mm256_min_ps(Of(89.0F), _mm256_max_ps(Of(-88.0F), x));
  const __m256 shifted = MulAdd(bounded, Of(0x1.715476p0F), round);
  const __m256 n = _mm256_sub_ps(shifted, round);
  const __m256 high = _mm256_sub_ps(bounded, _mm256_mul_ps(n, Of(0.693359375F)));
  const __m256 r = _mm256_sub_ps(high, _mm256_mul_ps(n, Of(-2.12194440e-4F)));
  __m256 p = MulAdd(Of(1.9875691500e-4F), r, Of(1.3981999507e-3F));
  p = MulAdd(p, r, Of(8.3334519073e-3F));
  p = MulAdd(p, r, Of(4.1665795894e-2F));
  p = MulAdd(p, r, Of(1.6666665459e-1F));
  p = MulAdd(p, r, Of(5.0000001201e-1F));
  const __m256 fraction = _mm256_add_ps(MulAdd(p, _mm256_mul_ps(r, r), r), Of(1.0F));
  const __m256i exponent =
      _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(round));
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  const __m256 value = _mm256_mul_ps(_mm256_mul_ps(fraction, PowerOfTwo(half)),
                                     PowerOfTwo(_mm256_sub_epi32(exponent, half)));
  return _mm256_and_ps(_mm256_cmp_ps(x, Of(-87.3365F), _CMP_NLT_UQ), value);
}

SLUICE_HOT_INLINE __m256 Silu(__m256 x) {
  const __m256 negative =
      _mm256_castsi256_ps(_mm256_xor_si256(_mm256_castps_si256(x), _mm256_set1_epi32(INT32_MIN)));
  return _mm256_div_ps(x, _mm256_add_ps(Of(1.0F), Exp(negative)));
}

// ToBf16 in each lane.
SLUICE_HOT_INLINE __m128i Rounded(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i rounded = _mm256_blendv_epi8(_mm256_add_epi32(bits, half), quiet, is_nan);
  const __m256i words = _mm256_srli_epi32(rounded, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

SLUICE_HOT_LOOP void RunValues(const Params& params, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 8) {
    const int64_t n = end - i < 8 ? end - i : 8;
    alignas(32) float gates[8] = {};
    alignas(32) float ups[8] = {};
    alignas(16) Bf16 out[8];
    const bool is_whole = n == 8;
    for (int64_t k = 0; k < n && !is_whole; ++k) gates[k] = params.gate[i + k];
    for (int64_t k = 0; k < n && !is_whole; ++k) ups[k] = params.up[i + k];
    const __m256 gate = _mm256_loadu_ps(is_whole ? params.gate + i : gates);
    const __m256 up = _mm256_loadu_ps(is_whole ? params.up + i : ups);
    auto* to = reinterpret_cast<__m128i*>(is_whole ? params.out + i : out);
    _mm_storeu_si128(to, Rounded(_mm256_mul_ps(Silu(gate), up)));
    for (int64_t k = 0; k < n && !is_whole; ++k) params.out[i + k] = out[k];
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

}  // namespace sluice::ops::swiglu::avx2
