// ValueCheck of weights.h: the one reading of all weights.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "model/checkpoint/value_sum.h"
#include "model/deepseek_v41/tensor_list.h"
#include "model/deepseek_v41/weights.h"

namespace sluice::model::deepseek_v41 {
namespace {

// Large enough that a step costs nothing, small enough that progress is smooth.
constexpr int64_t kStepBytes = 16 << 20;

constexpr uint8_t kScaleMin = 64, kScaleMax = 190;

constexpr auto kIsBadScale = [](uint8_t code) { return code < kScaleMin || code > kScaleMax; };
constexpr auto kIsE4m3Nan = [](uint8_t code) { return (code & 0x7F) == 0x7F; };
constexpr auto kIsBf16Special = [](uint16_t bits) { return (bits & 0x7F80) == 0x7F80; };
constexpr auto kIsF32Special = [](uint32_t bits) { return (bits & 0x7F800000) == 0x7F800000; };

// Index of the first bad value, or n. Blocks without a branch inside: compilers vectorise them,
// and the place is looked for only once something is wrong.
template <typename T, typename IsBad>
int64_t FindBad(ConstBytes bytes, const IsBad& is_bad) {
  const T* values = reinterpret_cast<const T*>(bytes.data());
  const auto n = static_cast<int64_t>(bytes.size() / sizeof(T));
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    unsigned n_bad = 0;
    for (int64_t i = begin; i < end; ++i) n_bad += is_bad(values[i]) ? 1 : 0;
    if (n_bad == 0) continue;
    return std::find_if(values + begin, values + end, is_bad) - values;
  }
  return n;
}

// What is wrong with the values, or an empty text; first: index of the first value of `bytes`.
std::string Complaint(DType dtype, Encoding encoding, ConstBytes bytes, int64_t first) {
  const auto n = static_cast<int64_t>(bytes.size()) / SizeOf(dtype);
  const auto byte_at = [bytes](int64_t i) {
    return static_cast<int>(bytes[static_cast<size_t>(i)]);
  };
  if (encoding == Encoding::kScales) {
    const int64_t bad = FindBad<uint8_t>(bytes, kIsBadScale);
    if (bad == n) return "";
    return fmt::format("scale {} has code {}; codes go from {} to {}", first + bad, byte_at(bad),
                       kScaleMin, kScaleMax);
  }
  if (encoding == Encoding::kFp8Codes) {
    const int64_t bad = FindBad<uint8_t>(bytes, kIsE4m3Nan);
    if (bad == n) return "";
    return fmt::format("value {} has E4M3 code {:#x}, which is NaN", first + bad, byte_at(bad));
  }
  if (encoding == Encoding::kFp4Codes) return "";  // every code is a value
  const int64_t bad = dtype == DType::kF32 ? FindBad<uint32_t>(bytes, kIsF32Special)
                                           : FindBad<uint16_t>(bytes, kIsBf16Special);
  if (bad == n) return "";
  return fmt::format("value {} is infinite or NaN", first + bad);
}

}  // namespace

ValueCheck::ValueCheck(const Checkpoint& checkpoint, const Config& config)
    : checkpoint_(checkpoint) {
  for (const TensorSpec& spec : ListTensors(config)) {
    const Checkpoint::Tensor* tensor = checkpoint.Find(spec.name);
    if (tensor == nullptr || spec.part == Part::kEngramTables || IsVisionName(spec.name)) continue;
    tensors_.push_back({.tensor = tensor, .encoding = spec.encoding});
    total_bytes_ += tensor->entry.n_bytes;
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const Item& a, const Item& b) {
    return std::tie(a.tensor->file, a.tensor->entry.begin) <
           std::tie(b.tensor->file, b.tensor->entry.begin);
  });
}

std::string_view ValueCheck::file() const {
  if (tensors_.empty()) return {};
  const size_t index = std::min(next_, tensors_.size() - 1);
  return checkpoint_.files()[static_cast<size_t>(tensors_[index].tensor->file)].name;
}

Status ValueCheck::Step() {
  SLUICE_CHECK(!done());
  int64_t n_left = kStepBytes;
  while (!done() && n_left > 0) {
    const Item& item = tensors_[next_];
    const TensorEntry& entry = item.tensor->entry;
    // A multiple of every size of a value.
    const int64_t n_bytes = std::min(n_left / 8 * 8 + 8, entry.n_bytes - at_);
    const ConstBytes bytes =
        checkpoint_.View(*item.tensor)
            .bytes.subspan(static_cast<size_t>(at_), static_cast<size_t>(n_bytes));
    const std::string complaint =
        Complaint(entry.dtype, item.encoding, bytes, at_ / SizeOf(entry.dtype));
    if (!complaint.empty()) {
      return {ErrorCode::kCorrupt, fmt::format("{}/{}: tensor {}: {}", checkpoint_.folder(), file(),
                                               entry.name, complaint)};
    }
    AddToSum(sum_, bytes);
    n_left -= n_bytes;
    done_bytes_ += n_bytes;
    at_ += n_bytes;
    if (at_ == entry.n_bytes) {
      ++next_;
      at_ = 0;
    }
  }
  return Status::Ok();
}

}  // namespace sluice::model::deepseek_v41
