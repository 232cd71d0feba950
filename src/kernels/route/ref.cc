#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "kernels/route/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"

namespace sluice::ops::route {
namespace {

constexpr int32_t kChosenMax = 64;

// The chosen so far, best first: a new candidate moves past all that it beats. Candidates come by
// ascending id and must be strictly better to pass, so ties go to the lower id.
struct Best {
  int32_t n = 0;
  int32_t experts[kChosenMax];
  float keys[kChosenMax];

  void Offer(int32_t expert, float key, int32_t n_max) {
    if (n == n_max && !(key > keys[n - 1])) return;
    int32_t at = n < n_max ? n++ : n - 1;
    for (; at > 0 && key > keys[at - 1]; --at) {
      keys[at] = keys[at - 1];
      experts[at] = experts[at - 1];
    }
    keys[at] = key;
    experts[at] = expert;
  }
};

float Score(float logit, Arithmetic arithmetic) {
  return std::sqrt(simd::Softplus(logit, arithmetic));
}

const float* BiasOf(const Params& params, int64_t row) {
  const bool is_image = params.is_image != nullptr && params.is_image[row] != 0;
  return is_image ? params.image_bias : params.bias;
}

// The bias is left out here: it only steers the choice (spec model.md §3.5).
void Weigh(const Params& params,
           const float* logits,
           const int32_t* chosen,
           float* weights,
           Arithmetic arithmetic) {
  double exact_sum = 0;
  float sum = 0;
  for (int32_t i = 0; i < params.n_chosen; ++i) {
    weights[i] = Score(logits[chosen[i]], arithmetic);
    exact_sum += double{weights[i]};
    sum += weights[i];
  }
  if (arithmetic == Arithmetic::kExact) sum = static_cast<float>(exact_sum);
  const float divisor = sum + 1e-20F;
  for (int32_t i = 0; i < params.n_chosen; ++i) weights[i] = weights[i] / divisor * params.scale;
}

void RouteRow(const Params& params, int64_t row, Arithmetic arithmetic) {
  const float* logits = params.logits + row * params.n_experts;
  const float* bias = BiasOf(params, row);
  int32_t* chosen = params.experts + row * params.n_chosen;
  Best best;
  for (int32_t expert = 0; expert < params.n_experts; ++expert) {
    best.Offer(expert, Score(logits[expert], arithmetic) + bias[expert], params.n_chosen);
  }
  std::sort(best.experts, best.experts + params.n_chosen);
  std::copy_n(best.experts, params.n_chosen, chosen);
  Weigh(params, logits, chosen, params.weights + row * params.n_chosen, arithmetic);
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.n_chosen > 0 && params.n_chosen <= kChosenMax);
  SLUICE_CHECK(params.n_chosen <= params.n_experts);
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t row = begin; row < end; ++row) RouteRow(params, row, stream.arithmetic);
  });
}

}  // namespace sluice::ops::route
