#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/rotary/op.h"

namespace sluice::ops::rotary {
namespace {

// The (real) component at which a pair turns `turns` times within the original context.
double TurningComponent(const FrequencyParams& params, double turns) {
  const double period = static_cast<double>(params.n_original) / (turns * 2 * std::numbers::pi);
  return params.n_rotated * std::log(period) / (2 * std::log(params.base));
}

// YaRN: pairs that turn often keep their frequency, slow ones are slowed by `factor`, those between
// are mixed. Each operation rounds to float. There is no temperature (spec model.md §3.0).
void Stretch(const FrequencyParams& params, std::vector<float>& frequencies) {
  const double low = std::max(std::floor(TurningComponent(params, params.beta_fast)), 0.0);
  const double high = std::min(std::ceil(TurningComponent(params, params.beta_slow)),
                               static_cast<double>(params.n_rotated - 1));
  const auto low_float = static_cast<float>(low);
  const auto width = static_cast<float>(std::max(high - low, 1e-3));
  for (size_t pair = 0; pair < frequencies.size(); ++pair) {
    const float ramp = std::clamp((static_cast<float>(pair) - low_float) / width, 0.0F, 1.0F);
    const float keep = 1.0F - ramp;
    const float slowed = frequencies[pair] / static_cast<float>(params.factor);
    frequencies[pair] = slowed * (1.0F - keep) + frequencies[pair] * keep;
  }
}

float Load(Bf16 x) { return ToFloat(x); }
float Load(float x) { return x; }
void Store(float value, Bf16& x) { x = ToBf16(value); }
void Store(float value, float& x) { x = value; }

// x: the 2 * n_pairs components that turn.
template <typename Value>
void RotateHead(const Params& params, const float* cos, const float* sin, Value* x) {
  const bool halves = params.pairing == Pairing::kHalves;
  const int32_t step = halves ? 1 : 2;  // from pair to pair
  const int32_t reach = halves ? params.n_pairs : 1;
  for (int32_t pair = 0; pair < params.n_pairs; ++pair) {
    Value* at = x + pair * step;
    const float first = Load(at[0]);
    const float second = Load(at[reach]);
    const float turn = params.inverse ? -sin[pair] : sin[pair];
    Store(first * cos[pair] - second * turn, at[0]);
    Store(first * turn + second * cos[pair], at[reach]);
  }
}

template <typename Value>
void RotateRow(const Params& params, int64_t row, Value* x) {
  const float* cos = params.cos + row * params.n_pairs;
  const float* sin = params.sin + row * params.n_pairs;
  for (int32_t head = 0; head < params.n_heads; ++head) {
    Value* end_of_head = x + row * params.x_stride + int64_t{head + 1} * params.head_dim;
    RotateHead(params, cos, sin, end_of_head - 2 * params.n_pairs);
  }
}

}  // namespace

std::vector<float> Frequencies(const FrequencyParams& params) {
  std::vector<float> frequencies(static_cast<size_t>(params.n_rotated / 2));
  for (size_t pair = 0; pair < frequencies.size(); ++pair) {
    const float exponent = static_cast<float>(2 * pair) / static_cast<float>(params.n_rotated);
    frequencies[pair] = 1.0F / static_cast<float>(std::pow(params.base, double{exponent}));
  }
  if (params.n_original > 0) Stretch(params, frequencies);
  return frequencies;
}

void Angles(const AngleParams& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      const auto position = static_cast<float>(params.positions[row]);
      for (int32_t pair = 0; pair < params.n_pairs; ++pair) {
        const double angle = position * params.frequencies[pair];  // a float product
        params.cos[row * params.n_pairs + pair] = static_cast<float>(std::cos(angle));
        params.sin[row * params.n_pairs + pair] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      if (params.x != nullptr) {
        RotateRow(params, row, params.x);
      } else {
        RotateRow(params, row, params.x_f32);
      }
    }
  });
}

}  // namespace sluice::ops::rotary
