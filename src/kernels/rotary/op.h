// Rotary position embedding on the last components of each head (Rot, Rot^-1; spec model.md §3.0).

#pragma once

#include <cstdint>
#include <vector>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::rotary {

struct FrequencyParams {
  int32_t n_rotated = 0;  // components, even
  double base = 10000;
  // YaRN without temperature; 0: off.
  int64_t n_original = 0;  // original_max_position_embeddings
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
};

// Radians per position of each pair, [n_rotated/2]. Equal to the official table to the bit: at
// position 10^6 one last bit turns a pair by 0.06 rad.
std::vector<float> Frequencies(const FrequencyParams& params);

// cos and sin of float(pos) * f, product rounded to float, then double precision rounded to float.
struct AngleParams {
  const int32_t* positions = nullptr;  // [n_rows]
  int64_t n_rows = 0;
  const float* frequencies = nullptr;  // [n_pairs]
  int32_t n_pairs = 0;
  float* cos = nullptr;  // [n_rows, n_pairs]
  float* sin = nullptr;
};
void Angles(const AngleParams& params, Stream& stream);

// Which two components of the last 2 * n_pairs of a head are one complex number.
enum class Pairing : uint8_t {
  kNeighbours,  // 2i and 2i + 1
  kHalves,      // i and i + n_pairs
};

struct Params {
  Bf16* x = nullptr;       // [n_rows, n_heads, head_dim], in place; rows x_stride values apart
  float* x_f32 = nullptr;  // or this
  int64_t x_stride = 0;
  int64_t n_rows = 0;
  int32_t n_heads = 1;
  int32_t head_dim = 0;
  const float* cos = nullptr;  // [n_rows, n_pairs]
  const float* sin = nullptr;
  int32_t n_pairs = 0;  // the last 2 * n_pairs components of a head turn
  Pairing pairing = Pairing::kNeighbours;
  bool inverse = false;
};

// (first * cos - second * sin, first * sin + second * cos), each product and sum rounded to float,
// then to the type of x.
void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::rotary
