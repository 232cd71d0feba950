#include "model/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "model/checkpoint/untrusted_text.h"

namespace sluice::model {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";  // free text of whoever wrote the file
// { name: { shape: [
constexpr int32_t kHeaderDepth = 3;

// What dtypes a file may have: those of checkpoints and of our own outputs.
constexpr std::string_view kDTypes = "BF16, F32, F8_E4M3, F8_E8M0, I8, U8, I32, I64, F16";

// Nothing when the product leaves 63 bits.
std::optional<int64_t> BytesOf(DType dtype, const Shape& shape) {
  int64_t n_bytes = SizeOf(dtype);
  for (int64_t n : shape) {
    if (__builtin_mul_overflow(n_bytes, n, &n_bytes)) return std::nullopt;
  }
  return n_bytes;
}

uint64_t ReadLength(ConstBytes file) {
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | static_cast<uint64_t>(file[static_cast<size_t>(i)]);
  }
  return length;
}

// The JSON text of the header.
Result<std::string_view> FindText(ConstBytes file) {
  if (file.size() < kLengthBytes) {
    return Status::Invalid(
        fmt::format("has {} bytes; a safetensors file begins with {} bytes of header length",
                    file.size(), kLengthBytes));
  }
  const uint64_t n_text = ReadLength(file);
  if (n_text > static_cast<uint64_t>(limits::kMaxTensorHeaderBytes)) {
    return Status::Invalid(fmt::format("header of {} bytes, at most {} are allowed", n_text,
                                       limits::kMaxTensorHeaderBytes));
  }
  if (n_text > file.size() - kLengthBytes) {
    return Status::Invalid(fmt::format("header of {} bytes in a file of {} bytes: it was cut short",
                                       n_text, file.size()));
  }
  return std::string_view(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                          static_cast<size_t>(n_text));
}

Result<DType> ReadDType(JsonValue value) {
  if (!value.is_string()) return Status::Invalid(fmt::format("dtype must be one of {}", kDTypes));
  if (std::optional<DType> dtype = DTypeOf(value.AsString())) return *dtype;
  return Status(ErrorCode::kUnsupported,
                fmt::format("dtype is {}; it must be one of {}", Quote(value.AsString()), kDTypes));
}

// A whole number from 0 to 2^63 - 1.
std::optional<int64_t> ReadCount(JsonValue value) {
  if (!value.is(JsonKind::kInt) || value.AsInt64() < 0) return std::nullopt;
  return value.AsInt64();
}

Result<Shape> ReadShape(JsonValue value) {
  if (!value.is_array() || value.size() > limits::kMaxTensorDims) {
    return Status::Invalid(
        fmt::format("shape must be a list of at most {} numbers", limits::kMaxTensorDims));
  }
  Shape shape;
  for (JsonValue dim : value.elements()) {
    const std::optional<int64_t> n = ReadCount(dim);
    if (!n)
      return Status::Invalid(
          fmt::format("shape has {}; sizes go from 0 to 2^63 - 1", Shorten(dim.ToText())));
    shape.push_back(*n);
  }
  return shape;
}

// data_offsets within the data of n_data bytes, which begin at byte `data_begin` of the file.
Status ReadPlace(JsonValue value, int64_t data_begin, int64_t n_data, TensorEntry& entry) {
  std::optional<int64_t> ends[2];
  if (value.is_array() && value.size() == 2) {
    int i = 0;
    for (JsonValue end : value.elements()) ends[i++] = ReadCount(end);
  }
  if (!ends[0] || !ends[1] || *ends[0] > *ends[1]) {
    return Status::Invalid(
        fmt::format("data_offsets are {}; they must be two numbers, begin <= end",
                    value.exists() ? Shorten(value.ToText()) : "missing"));
  }
  if (*ends[1] > n_data) {
    return Status::Invalid(fmt::format("data_offsets [{}, {}] in a file with {} bytes of data: {}",
                                       *ends[0], *ends[1], n_data, "it was cut short"));
  }
  entry.begin = data_begin + *ends[0];
  entry.n_bytes = *ends[1] - *ends[0];
  return Status::Ok();
}

Result<TensorEntry> ReadEntry(JsonMember member, int64_t data_begin, int64_t n_data) {
  if (!member.value.is_object()) {
    return Status::Invalid(
        fmt::format("must be an object with dtype, shape and data_offsets, not {}",
                    NameOf(member.value.kind())));
  }
  TensorEntry entry = {.name = std::string(member.key)};
  SLUICE_TRY(entry.dtype, ReadDType(member.value.Find("dtype")));
  SLUICE_TRY(entry.shape, ReadShape(member.value.Find("shape")));
  const std::optional<int64_t> n_needed = BytesOf(entry.dtype, entry.shape);
  if (!n_needed) {
    return Status::Invalid(
        fmt::format("shape {} has more than 2^63 - 1 bytes", ToString(entry.shape)));
  }
  SLUICE_TRY(ReadPlace(member.value.Find("data_offsets"), data_begin, n_data, entry));
  if (entry.n_bytes != *n_needed) {
    return Status::Invalid(fmt::format("data_offsets give {} bytes; shape {} of {} needs {}",
                                       entry.n_bytes, ToString(entry.shape), NameOf(entry.dtype),
                                       *n_needed));
  }
  return entry;
}

// Members of the outermost object of a valid text, those with a name that came before included.
int64_t CountMembers(std::string_view text) {
  int64_t n_colons = 0;
  int32_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      ++n_colons;
    }
  }
  return n_colons;
}

// Invariant 3 of the header; `data_begin` is where the data begin.
Status CheckCover(std::vector<const TensorEntry*> by_place, int64_t data_begin, int64_t n_file) {
  std::sort(by_place.begin(), by_place.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->n_bytes < b->n_bytes;
  });
  int64_t end = data_begin;
  for (const TensorEntry* entry : by_place) {
    if (entry->begin < end) {
      return Status::Invalid(
          fmt::format("tensor {} begins at byte {} of the file, inside another one", entry->name,
                      entry->begin));
    }
    if (entry->begin > end) {
      return Status::Invalid(
          fmt::format("bytes [{}, {}) of the file belong to no tensor", end, entry->begin));
    }
    end += entry->n_bytes;
  }
  if (end != n_file) {
    return Status::Invalid(
        fmt::format("has {} bytes, and its tensors end at byte {}", n_file, end));
  }
  return Status::Ok();
}

}  // namespace

std::string ToString(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

Result<std::vector<TensorEntry>> ParseHeader(ConstBytes file) {
  SLUICE_TRY(const std::string_view text, FindText(file));
  Result<Json> json =
      Json::Parse(text, {.text_bytes = limits::kMaxTensorHeaderBytes, .depth = kHeaderDepth});
  if (!json) return json.error().AddContext("header");
  const JsonValue root = json->root();
  if (!root.is_object()) return Status::Invalid("header: must be an object");
  if (root.size() > limits::kMaxTensors) {
    return Status::Invalid(fmt::format("header: {} tensors, at most {} are allowed", root.size(),
                                       limits::kMaxTensors));
  }
  if (const int64_t n = CountMembers(text); n != root.size()) {
    return Status::Invalid(fmt::format(
        "header: {} names of which {} differ: a tensor is named twice", n, root.size()));
  }
  const int64_t n_file = static_cast<int64_t>(file.size());
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(text.size());
  std::vector<TensorEntry> entries;
  for (JsonMember member : root.members()) {
    if (member.key == kMetadata) continue;
    if (!IsPlainName(member.key)) {
      return Status::Invalid(fmt::format("tensor name {}: {}", Quote(member.key), kPlainNameRule));
    }
    Result<TensorEntry> entry = ReadEntry(member, data_begin, n_file - data_begin);
    if (!entry) return entry.error().AddContext(fmt::format("tensor {}", member.key));
    entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  std::vector<const TensorEntry*> by_place;
  for (const TensorEntry& entry : entries) by_place.push_back(&entry);
  SLUICE_TRY(CheckCover(std::move(by_place), data_begin, n_file));
  return entries;
}

std::string MakeHeader(const std::vector<TensorToWrite>& tensors) {
  std::string text;
  JsonWriter w(text);
  w.Object();
  int64_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::optional<int64_t> n_bytes = BytesOf(tensor.dtype, tensor.shape);
    SLUICE_CHECK(n_bytes && *n_bytes <= std::numeric_limits<int64_t>::max() - begin);
    w.Key(tensor.name).Object();
    w.Key("dtype").String(NameOf(tensor.dtype));
    w.Key("shape").Array();
    for (int64_t n : tensor.shape) w.Int(n);
    w.EndArray();
    w.Key("data_offsets").Array().Int(begin).Int(begin + *n_bytes).EndArray();
    w.EndObject();
    begin += *n_bytes;
  }
  w.EndObject();
  while (text.size() % kLengthBytes != 0) text += ' ';
  std::string header;
  for (int i = 0; i < kLengthBytes; ++i) header += static_cast<char>(text.size() >> (8 * i));
  return header + text;
}

}  // namespace sluice::model
