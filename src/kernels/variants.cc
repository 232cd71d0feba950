#include "kernels/variants.h"

#include "kernels/block_linear/op.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/index_score/op.h"
#include "kernels/linear/op.h"
#include "kernels/swiglu/op.h"

namespace sluice::ops {

std::vector<OpIsas> OpsWithVariants() {
  return {{.op = "block_linear", .isas = block_linear::Isas()},
          {.op = "gqa_attention", .isas = gqa_attention::Isas()},
          {.op = "index_score", .isas = index_score::Isas()},
          {.op = "linear", .isas = linear::Isas()},
          {.op = "swiglu", .isas = swiglu::Isas()}};
}

}  // namespace sluice::ops
