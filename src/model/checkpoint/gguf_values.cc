// Metadata of a GgufFile by key and type.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/checkpoint/gguf.h"
#include "model/checkpoint/gguf_impl.h"
#include "model/checkpoint/untrusted_text.h"

namespace sluice::model {
namespace {

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",  "i16", "u32", "i32", "f32",
                                           "bool", "string", "list", "u64", "i64", "f64"};
static_assert(std::size(kTypeNames) == kGgufTypes);

std::string_view NameOf(GgufType type) { return kTypeNames[static_cast<size_t>(type)]; }

bool IsInteger(GgufType type) {
  return type <= GgufType::kI32 || type == GgufType::kU64 || type == GgufType::kI64;
}
bool IsFloat(GgufType type) { return type == GgufType::kF32 || type == GgufType::kF64; }

// -1 beside `fits` false for what no int64 holds.
struct IntegerValue {
  int64_t value = 0;
  bool fits = true;
};

IntegerValue IntegerAt(ConstBytes file, GgufType type, int64_t at) {
  switch (type) {
    case GgufType::kU8:
      return {ValueAt<uint8_t>(file, at)};
    case GgufType::kI8:
      return {ValueAt<int8_t>(file, at)};
    case GgufType::kU16:
      return {ValueAt<uint16_t>(file, at)};
    case GgufType::kI16:
      return {ValueAt<int16_t>(file, at)};
    case GgufType::kU32:
      return {ValueAt<uint32_t>(file, at)};
    case GgufType::kI32:
      return {ValueAt<int32_t>(file, at)};
    case GgufType::kI64:
      return {ValueAt<int64_t>(file, at)};
    default: {
      const auto value = ValueAt<uint64_t>(file, at);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return {-1, false};
      return {static_cast<int64_t>(value)};
    }
  }
}

double FloatAt(ConstBytes file, GgufType type, int64_t at) {
  return type == GgufType::kF32 ? double{ValueAt<float>(file, at)} : ValueAt<double>(file, at);
}

Status TooLarge(std::string_view key) {
  return Status::Invalid(
      fmt::format("key {} has an integer above 2^63 - 1, which none may be", key));
}

constexpr auto kIsString = [](GgufType type) { return type == GgufType::kString; };
constexpr auto kIsBool = [](GgufType type) { return type == GgufType::kBool; };

}  // namespace

const GgufFile::Entry* GgufFile::Find(std::string_view key) const {
  const auto at = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
  return at == entries_.end() || at->key != key ? nullptr : &*at;
}

// The entry, if its type, or that of its elements, is one of those that `is_wanted` takes.
Result<const GgufFile::Entry*> GgufFile::Need(std::string_view key,
                                              std::string_view wanted,
                                              bool is_list,
                                              bool (*is_wanted)(GgufType)) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) {
    return Status(ErrorCode::kNotFound,
                  fmt::format("key {} is missing; it must be {}", Quote(key), wanted));
  }
  const bool is_list_here = entry->type == GgufType::kList;
  if (is_list_here == is_list && is_wanted(is_list ? entry->element : entry->type)) return entry;
  return Status::Invalid(fmt::format("key {} is {}{}; it must be {}", key,
                                     is_list_here ? "a list of " : "",
                                     NameOf(is_list_here ? entry->element : entry->type), wanted));
}

Result<std::string_view> GgufFile::String(std::string_view key) const {
  SLUICE_TRY(const Entry* entry, Need(key, "a string", false, kIsString));
  const auto n = ValueAt<int64_t>(file_, entry->begin);
  return TextAt(file_, entry->begin + 8, n);
}

Result<int64_t> GgufFile::Integer(std::string_view key) const {
  SLUICE_TRY(const Entry* entry, Need(key, "an integer", false, IsInteger));
  const IntegerValue value = IntegerAt(file_, entry->type, entry->begin);
  if (!value.fits) return TooLarge(key);
  return value.value;
}

Result<double> GgufFile::Float(std::string_view key) const {
  SLUICE_TRY(const Entry* entry, Need(key, "a float", false, IsFloat));
  const double value = FloatAt(file_, entry->type, entry->begin);
  if (std::isfinite(value)) return value;
  return Status::Invalid(fmt::format("key {} is {}; it must be finite", key, value));
}

Result<bool> GgufFile::Bool(std::string_view key) const {
  SLUICE_TRY(const Entry* entry, Need(key, "a bool", false, kIsBool));
  const auto value = ValueAt<uint8_t>(file_, entry->begin);
  if (value <= 1) return value == 1;
  return Status::Invalid(fmt::format("key {} is {}; a bool is 0 or 1", key, value));
}

Result<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  SLUICE_TRY(const Entry* entry, Need(key, "a list of strings", true, kIsString));
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<size_t>(entry->n));
  int64_t at = entry->begin;
  for (int64_t i = 0; i < entry->n; ++i) {
    const auto n = ValueAt<int64_t>(file_, at);
    texts.push_back(TextAt(file_, at + 8, n));
    at += 8 + n;
  }
  return texts;
}

Result<std::vector<int64_t>> GgufFile::Integers(std::string_view key) const {
  SLUICE_TRY(const Entry* entry, Need(key, "a list of integers", true, IsInteger));
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(entry->n));
  for (int64_t i = 0; i < entry->n; ++i) {
    const int64_t at = entry->begin + i * SizeOf(entry->element);
    const IntegerValue value = IntegerAt(file_, entry->element, at);
    if (!value.fits) return TooLarge(key);
    values.push_back(value.value);
  }
  return values;
}

}  // namespace sluice::model
