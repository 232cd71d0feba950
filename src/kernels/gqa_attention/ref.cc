// Attention with shared keys and values: the formula.

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gqa_attention/items.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/simd/exp2.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/lane_sum.h"

namespace sluice::ops::gqa_attention::ref {
namespace {

// One head of one row.
struct Query {
  const Sequence* sequence;
  int32_t position;
  int32_t kv_head;
  std::vector<float> q;  // rounded
  float factor;          // scale * log2 e
};

struct Sums {
  float top = 0;
  float weight = 0;
  std::vector<float> total;
};

const Bf16* HeadOf(const PagedRows& rows, int64_t position, const Query& query) {
  return reinterpret_cast<const Bf16*>(rows.Row(position)) +
         static_cast<size_t>(query.kv_head) * query.q.size();
}

float Score(const Query& query, int64_t position) {
  const Bf16* key = HeadOf(query.sequence->keys, position, query);
  float sum = 0;
  for (size_t i = 0; i < query.q.size(); i += 2) {
    sum = std::fma(query.q[i + 1], ToFloat(key[i + 1]), sum);
    sum = std::fma(query.q[i], ToFloat(key[i]), sum);
  }
  return sum * query.factor;
}

// total[i] = prob[0] * value[0][i] + ..., the positions from `first` on.
std::vector<float> Total(const Query& query, int64_t first, const std::vector<float>& prob) {
  std::vector<float> total(query.q.size());
  const auto add = [&](size_t p, size_t i) {
    if (p >= prob.size()) {
      total[i] = std::fma(0.0F, 0.0F, total[i]);
      return;
    }
    const Bf16* value = HeadOf(query.sequence->values, first + static_cast<int64_t>(p), query);
    total[i] = std::fma(prob[p], ToFloat(value[i]), total[i]);
  };
  for (size_t p = 0; p < prob.size(); p += 2) {
    for (size_t i = 0; i < total.size(); ++i) {
      add(p + 1, i);
      add(p, i);
    }
  }
  return total;
}

// n positions from `first` on.
Sums SumSpan(const Query& query, int64_t first, int64_t n) {
  std::vector<float> scores;
  for (int64_t p = first; p < first + n; ++p) scores.push_back(Score(query, p));
  Sums sums;
  sums.top = *std::max_element(scores.begin(), scores.end());
  std::vector<float> prob;
  for (const float score : scores) prob.push_back(RoundToBf16(simd::Exp2(score - sums.top)));
  sums.weight = simd::LaneSumFloat32(n, [&](int64_t p) { return prob[static_cast<size_t>(p)]; });
  sums.total = Total(query, first, prob);
  return sums;
}

void Join(Sums& sums, const Sums& other) {
  const float top = std::max(sums.top, other.top);
  const float a = simd::Exp2(sums.top - top);
  const float b = simd::Exp2(other.top - top);
  const auto join = [&](float x, float y) {
    const float left = x * a;
    const float right = y * b;
    return left + right;
  };
  sums.top = top;
  sums.weight = join(sums.weight, other.weight);
  for (size_t i = 0; i < sums.total.size(); ++i) {
    sums.total[i] = join(sums.total[i], other.total[i]);
  }
}

void RunHead(const Params& params, const Sequence& sequence, int64_t row, int32_t head) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  const int64_t at = (row * params.n_heads + head) * params.head_dim;
  Query query{.sequence = &sequence,
              .position = params.positions[row],
              .kv_head = head / (params.n_heads / params.n_kv_heads),
              .q = {},
              .factor = params.scale * simd::kLog2OfE};
  for (int32_t i = 0; i < params.head_dim; ++i) query.q.push_back(RoundToBf16(params.q[at + i]));
  Sums sums;
  for (int64_t first = 0; first <= query.position; first += kSpan) {
    const Sums span = SumSpan(query, first, std::min<int64_t>(kSpan, query.position + 1 - first));
    if (first == 0) {
      sums = span;
    } else {
      Join(sums, span);
    }
  }
  for (int32_t i = 0; i < params.head_dim; ++i) {
    params.out[at + i] = ToBf16(sums.total[static_cast<size_t>(i)] / sums.weight);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  if (stream.arithmetic == Arithmetic::kExact) return RunExact(params, stream);
  for (int64_t i = 0; i < params.n_sequences; ++i) {
    const Sequence& sequence = params.sequences[i];
    stream.team.Run(sequence.n_rows * params.n_heads, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t item = begin; item < end; ++item) {
        RunHead(params, sequence, sequence.first_row + item / params.n_heads,
                static_cast<int32_t>(item % params.n_heads));
      }
    });
  }
}

}  // namespace sluice::ops::gqa_attention::ref
