// Router and experts of one layer (spec model.md §3.5).

#include <vector>

#include "kernels/moe_ffn/op.h"
#include "kernels/route/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {

void Step::Moe(int32_t layer, const MoeWeights& weights, int32_t n_chosen) {
  const int64_t n = n_rows_;
  const auto n_experts = static_cast<int32_t>(weights.experts.size());
  LinearF32(s_.u.data(), weights.gate, n, s_.router_logits.data());
  Note("router_logits", layer, DType::kF32, {n, n_experts}, s_.router_logits.data());
  ops::route::Run({.logits = s_.router_logits.data(),
                   .n_rows = n,
                   .n_experts = n_experts,
                   .n_chosen = n_chosen,
                   .bias = weights.bias,
                   .image_bias = weights.bias_vl != nullptr ? weights.bias_vl : weights.bias,
                   .is_image = s_.is_image.data(),
                   .scale = static_cast<float>(c_.routed_scaling_factor),
                   .experts = s_.experts.data(),
                   .weights = s_.expert_weights.data()},
                  stream_);
  Note("experts", layer, DType::kI32, {n, n_chosen}, s_.experts.data());
  Note("expert_weights", layer, DType::kF32, {n, n_chosen}, s_.expert_weights.data());
  std::vector<Bf16> traced;
  std::vector<Bf16> traced_shared;
  if (out_.trace != nullptr) {
    traced.resize(static_cast<size_t>(n * n_chosen * c_.hidden_size));
    traced_shared.resize(static_cast<size_t>(n * c_.hidden_size));
  }
  ops::moe_ffn::Run({.x = s_.u.data(),
                     .n_rows = n,
                     .n_columns = c_.hidden_size,
                     .n_inner = c_.moe_intermediate_size,
                     .chosen = s_.experts.data(),
                     .weights = s_.expert_weights.data(),
                     .n_chosen = n_chosen,
                     .experts = weights.experts,
                     .shared = weights.shared,
                     .limit = static_cast<float>(c_.swiglu_limit),
                     .out = s_.y.data(),
                     .expert_out = traced.empty() ? nullptr : traced.data(),
                     .shared_out = traced_shared.empty() ? nullptr : traced_shared.data(),
                     .scratch = s_.moe},
                    stream_);
  Note("expert_out", layer, DType::kBf16, {n, n_chosen, c_.hidden_size}, traced.data());
  Note("shared_out", layer, DType::kBf16, {n, c_.hidden_size}, traced_shared.data());
}

}  // namespace sluice::model::deepseek_v41
