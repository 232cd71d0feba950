// The router's choice (spec model.md §3.5): s = sqrt(softplus(logit)); the n_chosen largest s +
// bias, ties to the lower id; weights s / (sum of the chosen s + 1e-20) * scale, the sum ascending
// by id.

#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace sluice::ops::route {

struct Params {
  const float* logits = nullptr;  // [n_rows, n_experts]
  int64_t n_rows = 0;
  int32_t n_experts = 0;
  int32_t n_chosen = 0;
  const float* bias = nullptr;        // [n_experts]; takes part in the choice only
  const float* image_bias = nullptr;  // instead, for rows with is_image
  const uint8_t* is_image = nullptr;  // [n_rows]; null: none
  float scale = 1;
  int32_t* experts = nullptr;  // [n_rows, n_chosen], ascending
  float* weights = nullptr;    // [n_rows, n_chosen]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::route
