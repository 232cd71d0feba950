#include "model/checkpoint/gguf.h"

#include <gmock/gmock.h>

#include <limits>

#include "base/limits.h"
#include "env/posix/posix_env.h"
#include "model/checkpoint/gguf_writer_test_impl.h"
#include "model/checkpoint/model_folder_test_impl.h"

namespace sluice::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kTypeF32 = 0, kTypeF16 = 1, kTypeQ4_0 = 2, kTypeQ2K = 10, kTypeQ6K = 14;

// Lives as long as the views into it.
struct Parsed {
  explicit Parsed(const GgufWriter& writer) : Parsed(writer.File()) {}
  explicit Parsed(std::string text)
      : bytes(std::move(text)), file(GgufFile::Parse(BytesOfText(bytes))) {}

  std::string bytes;
  Result<GgufFile> file;
};

// The message, or "accepted".
std::string ErrorOf(const std::string& bytes) {
  const Result<GgufFile> file = GgufFile::Parse(BytesOfText(bytes));
  return file ? "accepted" : std::string(file.error().message());
}
std::string ErrorOf(const GgufWriter& writer) { return ErrorOf(writer.File()); }

template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result ? "a value" : std::string(result.error().message());
}

GgufWriter TwoTensors() {
  GgufWriter writer;
  writer.Text("general.architecture", "llama")
      .Key<uint32_t>("llama.block_count", GgufType::kU32, 3);
  writer.Tensor("b.weight", kTypeQ4_0, {64, 2}, std::string(2 * 2 * 18, 'q'));
  writer.Tensor("a.weight", kTypeF32, {3}, std::string(12, 'f'));
  return writer;
}

TEST(Gguf, TensorsHaveNameFormatShapeOutermostFirstAndTheirBytes) {
  const Parsed parsed(TwoTensors());
  ASSERT_TRUE(parsed.file) << parsed.file.error().message();
  const GgufFile& file = *parsed.file;
  ASSERT_EQ(file.tensors().size(), 2);
  EXPECT_EQ(file.tensors()[0].name, "a.weight");
  const GgufTensor* tensor = file.FindTensor("b.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(tensor->shape, ElementsAre(2, 64));
  const Matrix matrix = file.MatrixOf(*tensor);
  EXPECT_EQ(matrix.format, MatrixFormat::kQ4_0);
  EXPECT_EQ(matrix.n_out, 2);
  EXPECT_EQ(matrix.n_in, 64);
  EXPECT_EQ(file.BytesOf(*tensor).size(), 72);
  EXPECT_EQ(file.BytesOf(*tensor)[71], std::byte{'q'});
  EXPECT_EQ(file.BytesOf(*file.FindTensor("a.weight"))[11], std::byte{'f'});
  EXPECT_EQ(file.MatrixOf(*file.FindTensor("a.weight")).n_out, 1);
  EXPECT_EQ(file.FindTensor("c.weight"), nullptr);
}

TEST(Gguf, VersionTwoIsReadLikeThree) {
  GgufWriter writer = TwoTensors();
  writer.version = 2;
  EXPECT_EQ(ErrorOf(writer), "accepted");
}

TEST(Gguf, AFileWithoutTensorsIsAVocabulary) {
  GgufWriter writer;
  writer.Text("tokenizer.ggml.model", "gpt2");
  EXPECT_EQ(ErrorOf(writer), "accepted");
}

TEST(Gguf, AlignmentIsThatOfTheFile) {
  GgufWriter writer;
  writer.alignment = 128;
  writer.Key<uint32_t>("general.alignment", GgufType::kU32, 128);
  writer.Tensor("a", kTypeF16, {3}, "123456").Tensor("b", kTypeF16, {1}, "78");
  const Parsed parsed(writer);
  ASSERT_TRUE(parsed.file) << parsed.file.error().message();
  EXPECT_EQ(parsed.file->FindTensor("b")->begin % 128, 0);
  EXPECT_EQ(parsed.file->BytesOf(*parsed.file->FindTensor("b"))[1], std::byte{'8'});
}

TEST(Gguf, MetadataOfEveryTypeIsFound) {
  GgufWriter writer;
  writer.Key<uint8_t>("u8", GgufType::kU8, 200).Key<int8_t>("i8", GgufType::kI8, -100);
  writer.Key<uint16_t>("u16", GgufType::kU16, 60000).Key<int16_t>("i16", GgufType::kI16, -30000);
  writer.Key<uint32_t>("u32", GgufType::kU32, 4000000000).Key<int32_t>("i32", GgufType::kI32, -5);
  writer.Key<uint64_t>("u64", GgufType::kU64, 1ULL << 62).Key<int64_t>("i64", GgufType::kI64, -6);
  writer.Key<float>("f32", GgufType::kF32, 0.25F).Key<double>("f64", GgufType::kF64, 1e-5);
  writer.Key<uint8_t>("yes", GgufType::kBool, 1).Key<uint8_t>("no", GgufType::kBool, 0);
  writer.Text("text", "a\nb").List<std::string>("texts", GgufType::kString, {"x", "", "yz"});
  writer.List<int16_t>("numbers", GgufType::kI16, {1, -2})
      .List<double>("floats", GgufType::kF64, {0.5, 2});
  writer.List<uint32_t>("none", GgufType::kU32, {});
  const Parsed parsed(writer);
  ASSERT_TRUE(parsed.file) << parsed.file.error().message();
  const GgufFile& file = *parsed.file;
  EXPECT_EQ(*file.Integer("u8"), 200);
  EXPECT_EQ(*file.Integer("i8"), -100);
  EXPECT_EQ(*file.Integer("u16"), 60000);
  EXPECT_EQ(*file.Integer("i16"), -30000);
  EXPECT_EQ(*file.Integer("u32"), 4000000000);
  EXPECT_EQ(*file.Integer("i32"), -5);
  EXPECT_EQ(*file.Integer("u64"), int64_t{1} << 62);
  EXPECT_EQ(*file.Integer("i64"), -6);
  EXPECT_EQ(*file.Float("f32"), 0.25);
  EXPECT_EQ(*file.Float("f64"), 1e-5);
  EXPECT_TRUE(*file.Bool("yes"));
  EXPECT_FALSE(*file.Bool("no"));
  EXPECT_EQ(*file.String("text"), "a\nb");
  EXPECT_THAT(*file.Strings("texts"), ElementsAre("x", "", "yz"));
  EXPECT_THAT(*file.Integers("numbers"), ElementsAre(1, -2));
  EXPECT_TRUE(file.Integers("none")->empty());
  EXPECT_EQ(file.entries().size(), 17);
  EXPECT_EQ(file.entries()[0].key, "f32");
}

TEST(Gguf, AWrongTypeIsToldWithKeyWhatItHasAndWhatIsWanted) {
  GgufWriter writer;
  writer.Text("text", "x").Key<uint64_t>("large", GgufType::kU64, ~uint64_t{0});
  writer.Key<uint8_t>("maybe", GgufType::kBool, 2);
  writer.Key<float>("eps", GgufType::kF32, std::numeric_limits<float>::quiet_NaN());
  writer.List<uint64_t>("ids", GgufType::kU64, {1, ~uint64_t{0}});
  const Parsed parsed(writer);
  ASSERT_TRUE(parsed.file) << parsed.file.error().message();
  const GgufFile& file = *parsed.file;
  EXPECT_EQ(MessageOf(file.Integer("text")), "key text is string; it must be an integer");
  EXPECT_EQ(MessageOf(file.String("ids")), "key ids is a list of u64; it must be a string");
  EXPECT_EQ(MessageOf(file.Strings("text")), "key text is string; it must be a list of strings");
  EXPECT_EQ(MessageOf(file.Strings("ids")),
            "key ids is a list of u64; it must be a list of strings");
  EXPECT_THAT(MessageOf(file.Integer("large")),
              HasSubstr("key large has an integer above 2^63 - 1"));
  EXPECT_THAT(MessageOf(file.Integers("ids")), HasSubstr("key ids has an integer above"));
  EXPECT_EQ(MessageOf(file.Bool("maybe")), "key maybe is 2; a bool is 0 or 1");
  EXPECT_EQ(MessageOf(file.Float("eps")), "key eps is nan; it must be finite");
  EXPECT_EQ(MessageOf(file.Float("large")), "key large is u64; it must be a float");
  EXPECT_EQ(MessageOf(file.Integer("\x1b[0m")),
            "key \"\\u001b[0m\" is missing; it must be an integer");
  EXPECT_EQ(file.Integer("absent").error().code(), ErrorCode::kNotFound);
}

TEST(Gguf, OtherFormatsAndVersionsAreRefusedByName) {
  EXPECT_THAT(ErrorOf("GGML...."), HasSubstr("begins with \"GGUF\""));
  EXPECT_THAT(ErrorOf(""), HasSubstr("cut short"));
  GgufWriter writer;
  for (const uint32_t version : {0U, 1U, 4U}) {
    writer.version = version;
    EXPECT_EQ(ErrorOf(writer),
              "has GGUF version " + std::to_string(version) + "; versions 2 and 3 are read");
  }
  writer.version = 0x03000000;
  EXPECT_THAT(ErrorOf(writer), HasSubstr("big-endian"));
  writer.version = 3;
  writer.Key<uint16_t>("split.count", GgufType::kU16, 1);
  EXPECT_EQ(ErrorOf(writer), "accepted");
  GgufWriter parts;
  parts.Key<uint16_t>("split.count", GgufType::kU16, 11);
  EXPECT_THAT(ErrorOf(parts), HasSubstr("one of 11 parts of a model (split.count)"));
}

// Cut at every byte: an error, never a crash, and never half a file.
TEST(Gguf, AFileThatWasCutShortIsRefusedWhereverItWasCut) {
  const std::string whole =
      TwoTensors().List<std::string>("t", GgufType::kString, {"ab", "c"}).File();
  ASSERT_EQ(ErrorOf(whole), "accepted");
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(ErrorOf(whole.substr(0, n)), "accepted") << n;
  }
}

TEST(Gguf, CountsThatTheFileHasNoRoomForAreRefused) {
  GgufWriter writer;
  writer.n_tensors = 1'000'000'000'000;
  EXPECT_EQ(ErrorOf(writer), "has 1000000000000 tensors, at most 524288 are allowed");
  writer.n_tensors = 1000;
  EXPECT_EQ(ErrorOf(writer), "1000 tensors need at least 33000 bytes, and 8 are left of the file");
  writer.n_tensors = {};
  writer.n_keys = ~uint64_t{0};
  EXPECT_THAT(ErrorOf(writer), HasSubstr("keys, at most 16384 are allowed"));
  writer.n_keys = 16'384;
  EXPECT_THAT(ErrorOf(writer), HasSubstr("16384 keys need at least"));

  const auto claim = [](GgufType element, uint64_t n) {
    GgufWriter list;
    return ErrorOf(list.List<uint32_t>("k", element, {}, n));
  };
  EXPECT_THAT(claim(GgufType::kU32, ~uint64_t{0}),
              HasSubstr("key k: has 18446744073709551615 values"));
  EXPECT_THAT(claim(GgufType::kU32, 1'000), HasSubstr("key k: its list at byte"));
  EXPECT_THAT(claim(GgufType::kString, 1'000), HasSubstr("key k: 1000 texts need at least 8000"));
}

TEST(Gguf, TextsAreBounded) {
  std::string file = GgufWriter().Text("k", "").Head();
  const auto with_length = [&](uint64_t n) {
    std::string changed = file.substr(0, file.size() - 8);
    GgufWriter::Append(changed, n);
    return ErrorOf(changed);
  };
  EXPECT_THAT(with_length(~uint64_t{0}), HasSubstr("at most 4194304 are allowed"));
  EXPECT_THAT(with_length(5), HasSubstr("needs 5 bytes and 0 are left"));
  GgufWriter names;
  EXPECT_THAT(ErrorOf(names.Text(std::string(257, 'k'), "")), HasSubstr("1 to 256 printable"));
  EXPECT_THAT(ErrorOf(GgufWriter().Text("", "")), HasSubstr("1 to 256 printable"));
  EXPECT_EQ(ErrorOf(GgufWriter().Text("a\x1b[1m", "")),
            "key \"a\\u001b[1m\": a name has 1 to 256 printable ASCII characters, without spaces, "
            "quotes and backslashes");
  EXPECT_THAT(ErrorOf(GgufWriter().Tensor("a b", kTypeF32, {1}, "1234")),
              HasSubstr("tensor name \"a b\""));
}

TEST(Gguf, UnknownTypesAndListsOfListsAreRefused) {
  EXPECT_EQ(ErrorOf(GgufWriter().Key<uint32_t>("k", static_cast<GgufType>(13), 0)),
            "key k: has type 13; types go from 0 to 12");
  EXPECT_EQ(ErrorOf(GgufWriter().List<uint32_t>("k", GgufType::kList, {1, 2, 3})),
            "key k: is a list of lists; lists of single values are read");
  EXPECT_THAT(ErrorOf(GgufWriter().Tensor("t", kTypeQ2K, {256}, std::string(84, 'x'))),
              HasSubstr("tensor t: has type 10 (Q2_K); it must be one of F32, F16"));
  EXPECT_THAT(ErrorOf(GgufWriter().Tensor("t", 4, {256}, "")), HasSubstr("type 4 (unknown)"));
}

TEST(Gguf, NamesAreThereOnce) {
  EXPECT_EQ(ErrorOf(GgufWriter().Text("k", "1").Text("l", "").Text("k", "1")),
            "key k is there twice");
  EXPECT_EQ(
      ErrorOf(GgufWriter().Tensor("t", kTypeF32, {1}, "1234").Tensor("t", kTypeF32, {1}, "1234")),
      "tensor t is there twice");
}

TEST(Gguf, ShapesAreBounded) {
  const auto error = [](uint32_t type, const std::vector<uint64_t>& dims) {
    return ErrorOf(GgufWriter().Tensor("t", type, dims, "12345678"));
  };
  EXPECT_EQ(error(kTypeF32, {}), "tensor t: has 0 dimensions; they go from 1 to 4");
  EXPECT_EQ(error(kTypeF32, {1, 1, 1, 1, 1}), "tensor t: has 5 dimensions; they go from 1 to 4");
  EXPECT_EQ(error(kTypeF32, {2, 0}), "tensor t: shape has 0; sizes go from 1 to 2^63 - 1");
  EXPECT_THAT(error(kTypeF32, {uint64_t{1} << 63}), HasSubstr("sizes go from 1 to 2^63 - 1"));
  EXPECT_THAT(error(kTypeF32, {1ULL << 61}), HasSubstr("more than 2^63 - 1 bytes"));
  EXPECT_THAT(error(kTypeF32, {1ULL << 32, 1ULL << 31}), HasSubstr("more than 2^63 - 1 bytes"));
  // 2^64 + 4 bytes, so 4 if it wrapped around.
  EXPECT_THAT(error(kTypeF32, {(1ULL << 62) + 1}), HasSubstr("more than 2^63 - 1 bytes"));
  EXPECT_THAT(error(kTypeQ4_0, {1ULL << 20, 1ULL << 20, 1ULL << 20, 1ULL << 20}),
              HasSubstr("more than 2^63 - 1 bytes"));
  EXPECT_EQ(error(kTypeQ4_0, {48}), "tensor t: has rows of 48 values; Q4_0 has blocks of 32");
  EXPECT_EQ(error(kTypeQ6K, {128, 4}), "tensor t: has rows of 128 values; Q6_K has blocks of 256");
  EXPECT_EQ(error(kTypeF32, {1, 2}), "accepted");
}

TEST(Gguf, TensorsLieAlignedInsideTheFileAndApart) {
  const auto error = [](uint64_t offset) {
    GgufWriter writer;
    writer.Tensor("a", kTypeF32, {16}, std::string(64, 'a'));
    return ErrorOf(writer.Tensor("b", kTypeF32, {8}, std::string(32, 'b'), offset));
  };
  EXPECT_EQ(error(64), "accepted");
  EXPECT_EQ(error(40), "tensor b: has offset 40; offsets are multiples of 32 (general.alignment)");
  EXPECT_THAT(error(32), HasSubstr("tensor b begins at byte 128 of the file, inside another one"));
  EXPECT_THAT(error(0), HasSubstr("inside another one"));
  EXPECT_THAT(error(96),
              HasSubstr("tensor b has 32 bytes from byte 192 on, and the file ends at 192"));
  EXPECT_THAT(error(uint64_t{1} << 63), HasSubstr("it was cut short"));
  EXPECT_THAT(error(~uint64_t{31}), HasSubstr("it was cut short"));
}

TEST(Gguf, AlignmentIsAPowerOfTwoWithinBounds) {
  const auto error = [](GgufType type, int64_t alignment) {
    GgufWriter writer;
    type == GgufType::kI64
        ? writer.Key<int64_t>("general.alignment", type, alignment)
        : writer.Key<uint32_t>("general.alignment", type, static_cast<uint32_t>(alignment));
    return ErrorOf(writer);
  };
  for (const int64_t good : {8, 32, 65'536}) EXPECT_EQ(error(GgufType::kU32, good), "accepted");
  for (const int64_t bad : {0, 1, 4, 24, 131'072}) {
    EXPECT_EQ(error(GgufType::kU32, bad), "key general.alignment is " + std::to_string(bad) +
                                              "; it must be a power of two from 8 to 65536");
  }
  for (const int64_t bad : {int64_t{-32}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(error(GgufType::kI64, bad), HasSubstr("must be a power of two"));
  }
  EXPECT_THAT(error(GgufType::kF32, 32), HasSubstr("must be an integer"));
}

TEST(Gguf, ErrorsOfAFileNameItsPath) {
  const PosixEnv env;
  const ModelFolder folder;
  folder.Write("good.gguf", TwoTensors().File());
  folder.Write("bad.gguf", "GGUFxxxx");
  Result<GgufFile> file = GgufFile::Open(env.env().fs, folder.PathOf("good.gguf"));
  ASSERT_TRUE(file) << file.error().message();
  const GgufFile moved = std::move(*file);
  EXPECT_EQ(*moved.String("general.architecture"), "llama");
  const Result<GgufFile> bad = GgufFile::Open(env.env().fs, folder.PathOf("bad.gguf"));
  ASSERT_FALSE(bad);
  EXPECT_THAT(std::string(bad.error().message()), HasSubstr("bad.gguf: has GGUF version"));
  EXPECT_EQ(GgufFile::Open(env.env().fs, folder.PathOf("none")).error().code(),
            ErrorCode::kNotFound);
}

TEST(CheckFinite, NamesTensorRowAndBlock) {
  std::string blocks(size_t{4} * 18, '\0');
  const Matrix matrix{.format = MatrixFormat::kQ4_0, .data = blocks.data(), .n_out = 2, .n_in = 64};
  EXPECT_TRUE(CheckFinite("t", matrix, 0, 2).ok());
  blocks[3 * 18 + 1] = 0x7C;
  EXPECT_TRUE(CheckFinite("t", matrix, 0, 1).ok());
  const Status status = CheckFinite("blk.0.ffn_up.weight", matrix, 1, 1);
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(status.message(),
            "tensor \"blk.0.ffn_up.weight\": row 1, block 1 has a scale that is infinite or NaN");
}

}  // namespace
}  // namespace sluice::model
