// The experts one after the other, ascending: each takes the rows that chose it, runs over them as
// one small batch and adds its output to theirs. That is the order of the sum per row, too.

#include <algorithm>

#include "kernels/linear/op.h"
#include "kernels/moe_ffn/op.h"
#include "kernels/quantize/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/buffer.h"

namespace sluice::ops::moe_ffn {
namespace {

// An expert has at most n_rows rows, because no row chooses one twice.
struct Workspace {
  std::span<Bf16> quantized;  // [n_rows, n_columns]: AQ8(x)
  std::span<float> total;     // [n_rows, n_columns]: sum of the routed experts so far
  std::span<Bf16> rows;       // [n_rows, n_columns]: inputs of the expert at work
  std::span<Bf16> gate;       // [n_rows, n_inner]; becomes h
  std::span<Bf16> up;         // [n_rows, n_inner]
  std::span<Bf16> out;        // [n_rows, n_columns]
  // Places (row * n_chosen + which) grouped by expert; group e ends at group_end[e].
  std::span<int32_t> places;     // [n_rows * n_chosen]
  std::span<int32_t> group_end;  // [n_experts]
};

struct Sizes {
  int64_t n_rows;
  int64_t n_columns;
  int64_t n_inner;
  int64_t n_chosen;
  int64_t n_experts;
};

Workspace LayOut(Arena& arena, const Sizes& sizes) {
  return {.quantized = arena.Take<Bf16>(sizes.n_rows * sizes.n_columns),
          .total = arena.Take<float>(sizes.n_rows * sizes.n_columns),
          .rows = arena.Take<Bf16>(sizes.n_rows * sizes.n_columns),
          .gate = arena.Take<Bf16>(sizes.n_rows * sizes.n_inner),
          .up = arena.Take<Bf16>(sizes.n_rows * sizes.n_inner),
          .out = arena.Take<Bf16>(sizes.n_rows * sizes.n_columns),
          .places = arena.Take<int32_t>(sizes.n_rows * sizes.n_chosen),
          .group_end = arena.Take<int32_t>(sizes.n_experts)};
}

// Counting sort: counts, then ends of the groups before, then each group grows to its own end.
void GroupByExpert(const Params& params, Workspace& work) {
  std::fill(work.group_end.begin(), work.group_end.end(), 0);
  const int64_t n_places = params.n_rows * params.n_chosen;
  const auto expert_of = [&](int64_t place) { return static_cast<size_t>(params.chosen[place]); };
  for (int64_t place = 0; place < n_places; ++place) ++work.group_end[expert_of(place)];
  int32_t n_before = 0;
  for (int32_t& end : work.group_end) {
    const int32_t n_here = end;
    end = n_before;
    n_before += n_here;
  }
  for (int64_t place = 0; place < n_places; ++place) {
    int32_t& end = work.group_end[expert_of(place)];
    work.places[static_cast<size_t>(end++)] = static_cast<int32_t>(place);
  }
}

void Quantize(const Bf16* x, int64_t n_rows, int32_t n_columns, Bf16* values, Stream& stream) {
  quantize::Run({.format = GroupFormat::kFp8,
                 .x = x,
                 .x_stride = n_columns,
                 .n_rows = n_rows,
                 .n_columns = n_columns,
                 .values = values},
                stream);
}

void Multiply(const Bf16* x, int64_t n_rows, const Matrix& weight, Bf16* out, Stream& stream) {
  linear::Run({.x = x,
               .x_stride = weight.n_in,
               .n_rows = n_rows,
               .weight = weight,
               .out = out,
               .out_stride = weight.n_out},
              stream);
}

// Rows of one expert. places: where their routing weights are; empty for the shared expert.
struct Batch {
  const Bf16* x = nullptr;  // [n_rows, n_columns]
  int64_t n_rows = 0;
  std::span<const int32_t> places;
};

// gate <- bf16(weight * (silu(min(gate, limit)) * clamp(up))). The weight comes before the down
// projection and its quantisation (spec model.md §3.5).
void Activate(const Params& params, const Batch& batch, Workspace& work, Stream& stream) {
  const float limit = params.limit;
  stream.team.Run(batch.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t row = begin; row < end; ++row) {
      Bf16* gates = work.gate.data() + row * params.n_inner;
      const Bf16* ups = work.up.data() + row * params.n_inner;
      for (int32_t i = 0; i < params.n_inner; ++i) {
        float gate = ToFloat(gates[i]);
        float up = ToFloat(ups[i]);
        if (limit > 0) {
          gate = std::min(gate, limit);
          up = std::clamp(up, -limit, limit);
        }
        float h = simd::Silu(gate, stream.arithmetic) * up;
        if (!batch.places.empty()) {
          h = params.weights[batch.places[static_cast<size_t>(row)]] * h;
        }
        gates[i] = ToBf16(h);
      }
    }
  });
}

// out [batch.n_rows, n_columns] <- the expert's output.
void RunExpert(const Params& params,
               const Expert& expert,
               const Batch& batch,
               Workspace& work,
               Bf16* out,
               Stream& stream) {
  Multiply(batch.x, batch.n_rows, expert.w1, work.gate.data(), stream);
  Multiply(batch.x, batch.n_rows, expert.w3, work.up.data(), stream);
  Activate(params, batch, work, stream);
  if (IsQuantized(expert.w2.format)) {
    Quantize(work.gate.data(), batch.n_rows, params.n_inner, work.gate.data(), stream);
  }
  Multiply(work.gate.data(), batch.n_rows, expert.w2, out, stream);
}

const Bf16* InputOf(const Params& params, const Expert& expert, const Workspace& work) {
  return IsQuantized(expert.w1.format) ? work.quantized.data() : params.x;
}

// Gathers the rows of the expert, runs it, adds to their totals.
void RunRouted(const Params& params,
               const Expert& expert,
               std::span<const int32_t> places,
               Workspace& work,
               Stream& stream) {
  const auto n_rows = static_cast<int64_t>(places.size());
  const int64_t n_columns = params.n_columns;
  const Bf16* input = InputOf(params, expert, work);
  for (int64_t i = 0; i < n_rows; ++i) {
    const int64_t row = places[static_cast<size_t>(i)] / params.n_chosen;
    std::copy_n(input + row * n_columns, n_columns, work.rows.data() + i * n_columns);
  }
  RunExpert(params, expert, {.x = work.rows.data(), .n_rows = n_rows, .places = places}, work,
            work.out.data(), stream);
  for (int64_t i = 0; i < n_rows; ++i) {
    const int64_t place = places[static_cast<size_t>(i)];
    const Bf16* out = work.out.data() + i * n_columns;
    float* total = work.total.data() + place / params.n_chosen * n_columns;
    for (int64_t column = 0; column < n_columns; ++column) total[column] += ToFloat(out[column]);
    if (params.expert_out != nullptr) {
      std::copy_n(out, n_columns, params.expert_out + place * n_columns);
    }
  }
}

// The shared expert takes every row, and is added last, to the sum as it is (not rounded to bf16).
void AddShared(const Params& params, Workspace& work, Stream& stream) {
  const int64_t n_values = params.n_rows * params.n_columns;
  Bf16* out = params.shared_out != nullptr ? params.shared_out : work.out.data();
  RunExpert(params, params.shared,
            {.x = InputOf(params, params.shared, work), .n_rows = params.n_rows}, work, out,
            stream);
  for (int64_t i = 0; i < n_values; ++i) {
    params.out[i] = ToBf16(work.total[static_cast<size_t>(i)] + ToFloat(out[i]));
  }
}

}  // namespace

int64_t ScratchBytes(
    int64_t n_rows, int32_t n_columns, int32_t n_inner, int32_t n_chosen, int32_t n_experts) {
  Arena arena;
  LayOut(arena, {.n_rows = n_rows,
                 .n_columns = n_columns,
                 .n_inner = n_inner,
                 .n_chosen = n_chosen,
                 .n_experts = n_experts});
  return arena.n_taken();
}

void Run(const Params& params, Stream& stream) {
  if (params.n_rows == 0) return;
  Arena arena(params.scratch);
  Workspace work = LayOut(arena, {.n_rows = params.n_rows,
                                  .n_columns = params.n_columns,
                                  .n_inner = params.n_inner,
                                  .n_chosen = params.n_chosen,
                                  .n_experts = static_cast<int64_t>(params.experts.size())});
  Quantize(params.x, params.n_rows, params.n_columns, work.quantized.data(), stream);
  GroupByExpert(params, work);
  std::fill(work.total.begin(), work.total.end(), 0.0F);
  size_t begin = 0;
  for (size_t expert = 0; expert < params.experts.size(); ++expert) {
    const auto end = static_cast<size_t>(work.group_end[expert]);
    if (begin < end) {
      RunRouted(params, params.experts[expert],
                std::span<const int32_t>(work.places).subspan(begin, end - begin), work, stream);
    }
    begin = end;
  }
  AddShared(params, work, stream);
}

}  // namespace sluice::ops::moe_ffn
