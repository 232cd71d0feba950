#include "model/checkpoint/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/checkpoint/gguf_impl.h"
#include "model/checkpoint/untrusted_text.h"
#include "tensor/block_format.h"

namespace sluice::model {
namespace {

constexpr uint32_t kBigEndianVersions[] = {0x0100'0000, 0x0200'0000, 0x0300'0000};
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMinAlignment = 8;  // the format's own rule, and enough for every value
constexpr uint32_t kMaxDims = 4;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::string_view kSplitKey = "split.count";

// What one key and one tensor take at least, with names of one byte: counts above what the file has
// room for are refused before memory is reserved for them.
constexpr int64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr int64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Types of tensors by their numbers in the file.
struct TensorType {
  uint32_t number;
  MatrixFormat format;
};
constexpr TensorType kTensorTypes[] = {
    {0, MatrixFormat::kF32},  {1, MatrixFormat::kF16},  {2, MatrixFormat::kQ4_0},
    {3, MatrixFormat::kQ4_1}, {6, MatrixFormat::kQ5_0}, {7, MatrixFormat::kQ5_1},
    {8, MatrixFormat::kQ8_0}, {12, MatrixFormat::kQ4K}, {13, MatrixFormat::kQ5K},
    {14, MatrixFormat::kQ6K}, {30, MatrixFormat::kBf16}};
constexpr std::string_view kTensorTypeNames =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";
// Those that are met and not read, for messages.
struct OtherType {
  uint32_t number;
  std::string_view name;
};
constexpr OtherType kOtherTypes[] = {
    {10, "Q2_K"},  {11, "Q3_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
    {24, "I8"},    {25, "I16"},    {26, "I32"},     {27, "I64"},    {28, "F64"},
    {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"}};

// Goes through the head of a file and never behind its end. `what` is for messages.
class Reader {
 public:
  explicit Reader(ConstBytes file) : file_(file) {}

  int64_t at() const { return at_; }
  int64_t n_left() const { return static_cast<int64_t>(file_.size()) - at_; }

  template <typename T>
  Result<T> Read(std::string_view what) {
    SLUICE_TRY(Skip(sizeof(T), what));
    return ValueAt<T>(file_, at_ - int64_t{sizeof(T)});
  }

  Result<std::string_view> ReadText(std::string_view what) {
    SLUICE_TRY(const uint64_t n, Read<uint64_t>(what));
    if (n > static_cast<uint64_t>(limits::kMaxGgufStringBytes)) {
      return Status::Invalid(fmt::format("{} at byte {} has {} bytes, at most {} are allowed", what,
                                         at_, n, limits::kMaxGgufStringBytes));
    }
    SLUICE_TRY(Skip(static_cast<int64_t>(n), what));
    return TextAt(file_, at_ - static_cast<int64_t>(n), static_cast<int64_t>(n));
  }

  Status Skip(int64_t n, std::string_view what) {
    if (n > n_left()) {
      return Status::Invalid(fmt::format("{} at byte {} needs {} bytes and {} are left: {}", what,
                                         at_, n, n_left(), "the file was cut short"));
    }
    at_ += n;
    return Status::Ok();
  }

  // A name or key, 1 to kMaxTensorNameBytes plain characters.
  Result<std::string_view> ReadName(std::string_view what) {
    SLUICE_TRY(const std::string_view name, ReadText(what));
    if (IsPlainName(name)) return name;
    return Status::Invalid(fmt::format("{} {}: {}", what, Quote(name), kPlainNameRule));
  }

 private:
  ConstBytes file_;
  int64_t at_ = 0;
};

Status CheckVersion(Reader& reader) {
  SLUICE_TRY(const uint32_t magic, reader.Read<uint32_t>("the magic number"));
  constexpr uint32_t kMagic = 0x4655'4747;  // "GGUF"
  if (magic != kMagic) return Status::Invalid("is no GGUF file: one begins with \"GGUF\"");
  SLUICE_TRY(const uint32_t version, reader.Read<uint32_t>("the version"));
  if (version == 2 || version == 3) return Status::Ok();
  const bool is_swapped = std::ranges::count(kBigEndianVersions, version) != 0;
  return {ErrorCode::kUnsupported,
          is_swapped ? std::string("is a big-endian GGUF file; little-endian ones are read")
                     : fmt::format("has GGUF version {}; versions 2 and 3 are read", version)};
}

Result<int64_t> ReadCount(Reader& reader, std::string_view what, int64_t max) {
  SLUICE_TRY(const uint64_t n, reader.Read<uint64_t>(what));
  if (n <= static_cast<uint64_t>(max)) return static_cast<int64_t>(n);
  return Status::Invalid(fmt::format("has {} {}, at most {} are allowed", n, what, max));
}

Status CheckRoom(const Reader& reader, std::string_view what, int64_t n, int64_t n_bytes_each) {
  if (n <= reader.n_left() / n_bytes_each) return Status::Ok();
  return Status::Invalid(fmt::format("{} {} need at least {} bytes, and {} are left of the file", n,
                                     what, n * n_bytes_each, reader.n_left()));
}

Result<GgufType> ReadType(Reader& reader) {
  SLUICE_TRY(const uint32_t number, reader.Read<uint32_t>("its type"));
  if (number < kGgufTypes) return static_cast<GgufType>(number);
  return Status::Invalid(fmt::format("has type {}; types go from 0 to {}", number, kGgufTypes - 1));
}

Status SkipList(Reader& reader, GgufFile::Entry& entry) {
  SLUICE_TRY(entry.element, ReadType(reader));
  if (entry.element == GgufType::kList) {
    return {ErrorCode::kUnsupported, "is a list of lists; lists of single values are read"};
  }
  SLUICE_TRY(entry.n, ReadCount(reader, "values", limits::kMaxGgufListValues));
  entry.begin = reader.at();
  if (entry.element != GgufType::kString) {
    return reader.Skip(entry.n * SizeOf(entry.element), "its list");
  }
  SLUICE_TRY(CheckRoom(reader, "texts", entry.n, 8));
  for (int64_t i = 0; i < entry.n; ++i) SLUICE_TRY(reader.ReadText("a text of its list").status());
  return Status::Ok();
}

Result<GgufFile::Entry> ReadEntry(Reader& reader) {
  GgufFile::Entry entry;
  SLUICE_TRY(entry.key, reader.ReadName("key"));
  const auto read_value = [&]() -> Status {
    SLUICE_TRY(entry.type, ReadType(reader));
    entry.begin = reader.at();
    if (entry.type == GgufType::kList) return SkipList(reader, entry);
    if (entry.type == GgufType::kString) return reader.ReadText("its text").status();
    return reader.Skip(SizeOf(entry.type), "its value");
  };
  if (Status status = read_value(); !status.ok()) {
    return status.AddContext(fmt::format("key {}", entry.key));
  }
  return entry;
}

Result<MatrixFormat> FormatOf(uint32_t number) {
  for (const TensorType& type : kTensorTypes) {
    if (type.number == number) return type.format;
  }
  std::string_view name = "unknown";
  for (const OtherType& type : kOtherTypes) {
    if (type.number == number) name = type.name;
  }
  return Status(ErrorCode::kUnsupported, fmt::format("has type {} ({}); it must be one of {}",
                                                     number, name, kTensorTypeNames));
}

Result<Shape> ReadShape(Reader& reader) {
  SLUICE_TRY(const uint32_t n_dims, reader.Read<uint32_t>("its number of dimensions"));
  if (n_dims < 1 || n_dims > kMaxDims) {
    return Status::Invalid(
        fmt::format("has {} dimensions; they go from 1 to {}", n_dims, kMaxDims));
  }
  Shape shape(n_dims);
  for (size_t i = n_dims; i-- > 0;) {
    SLUICE_TRY(const uint64_t n, reader.Read<uint64_t>("its shape"));
    if (n < 1 || n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Status::Invalid(fmt::format("shape has {}; sizes go from 1 to 2^63 - 1", n));
    }
    shape[i] = static_cast<int64_t>(n);
  }
  return shape;
}

// Sets n_bytes.
Status MeasureTensor(GgufTensor& tensor) {
  const int64_t n_in = tensor.shape.back();
  if (IsBlockFormat(tensor.format) && n_in % ShapeOf(tensor.format).n_values != 0) {
    return Status::Invalid(fmt::format("has rows of {} values; {} has blocks of {}", n_in,
                                       NameOf(tensor.format), ShapeOf(tensor.format).n_values));
  }
  // No row has more than 4 bytes per value, so the first product must leave room for that.
  int64_t n_bytes = 0;
  bool overflows = __builtin_mul_overflow(n_in, int64_t{4}, &n_bytes);
  if (!overflows) n_bytes = RowBytesOf(Matrix{.format = tensor.format, .n_in = n_in});
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    overflows = overflows || __builtin_mul_overflow(n_bytes, tensor.shape[i], &n_bytes);
  }
  if (overflows) {
    return Status::Invalid(
        fmt::format("shape {} has more than 2^63 - 1 bytes", ToString(tensor.shape)));
  }
  tensor.n_bytes = n_bytes;
  return Status::Ok();
}

// `begin` counts from the beginning of the data yet, whose place is known behind the last tensor.
Result<GgufTensor> ReadTensor(Reader& reader, int64_t alignment) {
  GgufTensor tensor;
  SLUICE_TRY(tensor.name, reader.ReadName("tensor name"));
  const auto read_rest = [&]() -> Status {
    SLUICE_TRY(tensor.shape, ReadShape(reader));
    SLUICE_TRY(const uint32_t type, reader.Read<uint32_t>("its type"));
    SLUICE_TRY(tensor.format, FormatOf(type));
    SLUICE_TRY(const uint64_t offset, reader.Read<uint64_t>("its offset"));
    if (offset % static_cast<uint64_t>(alignment) != 0) {
      return Status::Invalid(fmt::format("has offset {}; offsets are multiples of {} ({})", offset,
                                         alignment, kAlignmentKey));
    }
    tensor.begin = static_cast<int64_t>(std::min(offset, uint64_t{1} << 62));
    return MeasureTensor(tensor);
  };
  if (Status status = read_rest(); !status.ok()) {
    return status.AddContext(fmt::format("tensor {}", tensor.name));
  }
  return tensor;
}

// Invariant 4.
Status CheckPlaces(std::vector<const GgufTensor*> by_place, int64_t n_file) {
  std::ranges::sort(by_place, {}, [](const GgufTensor* tensor) { return tensor->begin; });
  int64_t end = 0;
  for (const GgufTensor* tensor : by_place) {
    if (tensor->begin > n_file || tensor->n_bytes > n_file - tensor->begin) {
      return Status::Invalid(
          fmt::format("tensor {} has {} bytes from byte {} on, and the file ends at {}: {}",
                      tensor->name, tensor->n_bytes, tensor->begin, n_file, "it was cut short"));
    }
    if (tensor->begin < end) {
      return Status::Invalid(
          fmt::format("tensor {} begins at byte {} of the file, inside another one", tensor->name,
                      tensor->begin));
    }
    end = tensor->begin + tensor->n_bytes;
  }
  return Status::Ok();
}

}  // namespace

Result<GgufFile> GgufFile::Open(FileSystem& fs, std::string_view path) {
  SLUICE_TRY(MappedFile mapped, fs.Map(path));
  Result<GgufFile> file = Parse(mapped.bytes());
  if (!file) return file.error().AddContext(path);
  file->mapped_ = std::move(mapped);
  return file;
}

Result<GgufFile> GgufFile::Parse(ConstBytes bytes) {
  GgufFile file;
  file.file_ = bytes;
  Reader reader(bytes);
  SLUICE_TRY(CheckVersion(reader));
  SLUICE_TRY(const int64_t n_tensors, ReadCount(reader, "tensors", limits::kMaxTensors));
  SLUICE_TRY(const int64_t n_keys, ReadCount(reader, "keys", limits::kMaxGgufKeys));
  SLUICE_TRY(CheckRoom(reader, "keys", n_keys, kMinKeyBytes));
  for (int64_t i = 0; i < n_keys; ++i) {
    SLUICE_TRY(Entry entry, ReadEntry(reader));
    file.entries_.push_back(entry);
  }
  std::ranges::sort(file.entries_, {}, &Entry::key);
  const auto twice = std::ranges::adjacent_find(file.entries_, {}, &Entry::key);
  if (twice != file.entries_.end()) {
    return Status::Invalid(fmt::format("key {} is there twice", twice->key));
  }
  SLUICE_TRY(file.CheckSplit());
  SLUICE_TRY(CheckRoom(reader, "tensors", n_tensors, kMinTensorBytes));
  SLUICE_TRY(file.ReadTensors(n_tensors, reader.at()));
  return file;
}

Status GgufFile::CheckSplit() const {
  if (!Has(kSplitKey)) return Status::Ok();
  SLUICE_TRY(const int64_t n, Integer(kSplitKey));
  if (n <= 1) return Status::Ok();
  return {ErrorCode::kUnsupported,
          fmt::format("is one of {} parts of a model ({}); a model in one file is read, so join "
                      "them first (llama-gguf-split --merge)",
                      n, kSplitKey)};
}

Status GgufFile::ReadTensors(int64_t n_tensors, int64_t at) {
  int64_t alignment = kDefaultAlignment;
  if (Has(kAlignmentKey)) {
    SLUICE_TRY(alignment, Integer(kAlignmentKey));
  }
  const bool is_power = alignment > 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power || alignment < kMinAlignment || alignment > limits::kMaxGgufAlignment) {
    return Status::Invalid(fmt::format("key {} is {}; it must be a power of two from {} to {}",
                                       kAlignmentKey, alignment, kMinAlignment,
                                       limits::kMaxGgufAlignment));
  }
  Reader reader(file_);
  SLUICE_TRY(reader.Skip(at, "the head"));
  for (int64_t i = 0; i < n_tensors; ++i) {
    SLUICE_TRY(GgufTensor tensor, ReadTensor(reader, alignment));
    tensors_.push_back(std::move(tensor));
  }
  std::ranges::sort(tensors_, {}, &GgufTensor::name);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, &GgufTensor::name);
  if (twice != tensors_.end()) {
    return Status::Invalid(fmt::format("tensor {} is there twice", twice->name));
  }
  const int64_t data_begin = (reader.at() + alignment - 1) / alignment * alignment;
  std::vector<const GgufTensor*> by_place;
  for (GgufTensor& tensor : tensors_) {
    tensor.begin += data_begin;
    by_place.push_back(&tensor);
  }
  SLUICE_TRY(CheckPlaces(std::move(by_place), static_cast<int64_t>(file_.size())));
  return Status::Ok();
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto at = std::ranges::lower_bound(tensors_, name, {}, &GgufTensor::name);
  return at == tensors_.end() || at->name != name ? nullptr : &*at;
}

ConstBytes GgufFile::BytesOf(const GgufTensor& tensor) const {
  return file_.subspan(static_cast<size_t>(tensor.begin), static_cast<size_t>(tensor.n_bytes));
}

Matrix GgufFile::MatrixOf(const GgufTensor& tensor) const {
  SLUICE_CHECK(tensor.shape.size() <= 2);
  return {.format = tensor.format,
          .data = BytesOf(tensor).data(),
          .n_out = tensor.shape.size() == 2 ? tensor.shape[0] : 1,
          .n_in = tensor.shape.back()};
}

Status CheckFinite(std::string_view name, const Matrix& matrix, int64_t first, int64_t n) {
  const MatrixPlace place = FindNonFinite(matrix, first, n);
  if (place.row < 0) return Status::Ok();
  const bool is_block = IsBlockFormat(matrix.format);
  return {ErrorCode::kCorrupt,
          fmt::format("tensor {}: row {}, {} {} {}", Quote(name), place.row,
                      is_block ? "block" : "value", place.index,
                      is_block ? "has a scale that is infinite or NaN" : "is infinite or NaN")};
}

}  // namespace sluice::model
