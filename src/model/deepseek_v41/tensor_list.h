// Every tensor of a checkpoint, for a Config (spec model.md §2.3): the one source for the loader,
// for `sluice inspect` and for whoever writes a checkpoint. Pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/part_sum.h"
#include "model/checkpoint/safetensors.h"
#include "model/deepseek_v41/config.h"
#include "tensor/dtype.h"

namespace sluice::model::deepseek_v41 {

// Rows of the table of spec model.md §2.4.
enum class Part : uint8_t {
  kHead,  // embedding, output head, final norm
  kAttention,
  kRoutedExperts,
  kSharedExperts,
  kRouters,
  kHyper,
  kIndexers,  // compressors and indexers
  kLayerNorms,
  kEngramTables,
  kEngramProjections,
  kDraft,   // all of mtp.*
  kVision,  // image encoder, aligner and the three delimiters
};
inline constexpr int32_t kNumParts = 12;
std::string_view NameOf(Part part);

// What the bytes of a tensor mean.
enum class Encoding : uint8_t {
  kPlain,     // BF16 or F32 values
  kFp8Codes,  // E4M3, scales in the tensor that follows in the list
  kFp4Codes,  // I8, two E2M1 codes a byte, scales in the tensor that follows
  kScales,    // E8M0 of the tensor before
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBf16;
  Shape shape;
  Part part = Part::kHead;
  Encoding encoding = Encoding::kPlain;
  // May be absent: what only images need (delimiters, bias_vl, the image encoder).
  bool is_optional = false;
  int32_t layer = -1;  // backbone layer or draft stage; -1: none

  int64_t n_bytes() const;
  // Logical parameters: an FP4 byte is two, a scale none.
  int64_t n_parameters() const;
};

// All tensors in the order in which the model uses them: globals, layers ascending, draft stages,
// vision. A `.scale` follows its `.weight`. config has passed Validate.
std::vector<TensorSpec> ListTensors(const Config& config);

// Belongs to the image encoder, by its name; such a tensor is let pass unknown (text only today).
bool IsVisionName(std::string_view name);

// By part; the table of spec model.md §2.4.
std::array<PartSum, kNumParts> SumByPart(const std::vector<TensorSpec>& tensors);

}  // namespace sluice::model::deepseek_v41
