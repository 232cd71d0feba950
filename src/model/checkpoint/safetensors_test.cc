#include "model/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "model/checkpoint/model_folder_test_impl.h"

namespace sluice::model {
namespace {

Result<std::vector<TensorEntry>> Parse(std::string_view file) {
  return ParseHeader(std::as_bytes(std::span(file)));
}

std::string Refusal(std::string_view file) {
  const Result<std::vector<TensorEntry>> entries = Parse(file);
  return entries.has_value() ? "accepted" : std::string(entries.error().message());
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const std::vector<TensorToWrite> tensors = {
      {.name = "b.weight", .dtype = DType::kBf16, .shape = {3, 5}},
      {.name = "a", .dtype = DType::kF32, .shape = {}},
      {.name = "empty", .dtype = DType::kI64, .shape = {4, 0}},
      {.name = "c", .dtype = DType::kF8E8m0, .shape = {7}}};
  std::string file = MakeHeader(tensors);
  EXPECT_EQ(file.size() % 8, 0u);
  const auto data_begin = static_cast<int64_t>(file.size());
  file += std::string(30 + 4 + 7, 'x');
  const Result<std::vector<TensorEntry>> entries = Parse(file);
  ASSERT_TRUE(entries.has_value()) << entries.error().message();
  ASSERT_EQ(entries->size(), 4u);
  const char* names[] = {"a", "b.weight", "c", "empty"};
  const int64_t begins[] = {30, 0, 34, 34}, sizes[] = {4, 30, 7, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*entries)[i].name, names[i]);
    EXPECT_EQ((*entries)[i].begin, data_begin + begins[i]);
    EXPECT_EQ((*entries)[i].n_bytes, sizes[i]);
  }
  EXPECT_EQ((*entries)[1].shape, (Shape{3, 5}));
  EXPECT_EQ((*entries)[2].dtype, DType::kF8E8m0);
}

TEST(Safetensors, NothingButAHeaderIsAFileOfNoTensors) {
  EXPECT_EQ(Parse(FileWithHeader("{}", ""))->size(), 0u);
  EXPECT_EQ(Parse(FileWithHeader(R"({"__metadata__": {"format": "pt"}}   )", ""))->size(), 0u);
  EXPECT_EQ(Parse(MakeHeader({}))->size(), 0u);
}

TEST(Safetensors, TheLengthIsBounded) {
  EXPECT_NE(Refusal("").find("has 0 bytes"), std::string::npos);
  EXPECT_NE(Refusal("\x01\0\0\0\0\0\0").find("begins with 8 bytes"), std::string::npos);
  std::string file(16, '\xff');
  EXPECT_EQ(Refusal(file), "header of 18446744073709551615 bytes, at most 67108864 are allowed");
  file = std::string("\x00\x00\x00\x00\x00\x00\x00\x80{}", 10);
  EXPECT_EQ(Refusal(file), "header of 9223372036854775808 bytes, at most 67108864 are allowed");
  file = std::string("\x03\0\0\0\0\0\0\0{}", 10);
  EXPECT_EQ(Refusal(file), "header of 3 bytes in a file of 10 bytes: it was cut short");
}

// One tensor of [2] F32, but for what a case changes; its data are 8 bytes.
TEST(Safetensors, EveryWrongHeaderIsNamed) {
  struct Case {
    const char* header;
    const char* message;
  };
  const Case cases[] = {
      {"", "invalid JSON"},
      {"[]", "must be an object"},
      {"{", "invalid JSON"},
      {R"({"a": 1})", "tensor a: must be an object with dtype, shape and data_offsets, not an int"},
      {R"({"a": {}})", "tensor a: dtype must be one of BF16, F32"},
      {R"({"a": {"dtype": 7}})", "dtype must be one of"},
      {R"({"a": {"dtype": "F64"}})", R"(dtype is "F64"; it must be one of BF16, F32, F8_E4M3)"},
      {R"({"a": {"dtype": "F32"}})", "shape must be a list of at most 8 numbers"},
      {R"({"a": {"dtype": "F32", "shape": 2}})", "shape must be a list"},
      {R"({"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,2]}})", "shape must be a list"},
      {R"({"a": {"dtype": "F32", "shape": [-2]}})", "shape has -2; sizes go from 0 to 2^63 - 1"},
      {R"({"a": {"dtype": "F32", "shape": [2.0]}})", "shape has 2.0"},
      {R"({"a": {"dtype": "F32", "shape": [9223372036854775808]}})", "shape has 92233720368547"},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904]}})",
       "shape [4611686018427387904] has more than 2^63 - 1 bytes"},
      {R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296]}})", "more than 2^63 - 1 bytes"},
      {R"({"a": {"dtype": "F32", "shape": [2]}})", "data_offsets are missing"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": 8}})", "data_offsets are 8; they"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}})", "data_offsets are [0]"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,4,8]}})", "data_offsets are"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8,0]}})", "begin <= end"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8,0]}})", "begin <= end"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,8.0]}})", "begin <= end"},
      {R"({"a": {"dtype": "F32", "shape": [2],
           "data_offsets": [9223372036854775800,9223372036854775807]}})",
       "in a file with 8 bytes of data: it was cut short"},
      {R"({"a": {"dtype": "F32", "shape": [2],
           "data_offsets": [9223372036854775808,18446744073709551615]}})",
       "begin <= end"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,9]}})", "it was cut short"},
      {R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0,8]}})",
       "data_offsets give 8 bytes; shape [3] of F32 needs 12"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4,8]}})", " belong to no tensor"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0,4]}})", ", and its tensors end"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]},
           "b": {"dtype": "F32", "shape": [1], "data_offsets": [4,8]}})",
       "tensor b begins at byte"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]},
           "a": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]}})",
       "2 names of which 1 differ: a tensor is named twice"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]},
           "\u0061": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]}})",
       "a tensor is named twice"},
      {R"({"": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]}})", "tensor name \"\":"},
      {R"({"a\nb": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]}})", R"(name "a\nb":)"},
      {R"({"\u001b[2J": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]}})", "printable"},
      {R"({"a": {"dtype": "F32", "shape": [[2]], "data_offsets": [0,8]}})", "invalid JSON"}};
  for (const Case& c : cases) {
    const std::string message = Refusal(FileWithHeader(c.header, "12345678"));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.header << "\n" << message;
  }
}

TEST(Safetensors, TheFileIsAsLongAsItsTensors) {
  const std::string header = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0,8]}})";
  EXPECT_EQ(Refusal(FileWithHeader(header, "12345678")), "accepted");
  EXPECT_NE(Refusal(FileWithHeader(header, "1234567")).find("it was cut short"), std::string::npos);
  EXPECT_NE(Refusal(FileWithHeader(header, "123456789")).find("its tensors end at byte"),
            std::string::npos);
}

TEST(Safetensors, DeepAndLongHeadersAreRefusedAtOnce) {
  const std::string deep = R"({"a": )" + std::string(1'000'000, '[');
  EXPECT_NE(Refusal(FileWithHeader(deep, "")).find("invalid JSON"), std::string::npos);
  const std::string name(257, 'n');
  const std::string file = FileWithHeader(
      fmt::format(R"({{"{}": {{"dtype": "F32", "shape": [], "data_offsets": [0,4]}}}})", name),
      "1234");
  EXPECT_NE(Refusal(file).find("1 to 256 printable"), std::string::npos);
  EXPECT_LT(Refusal(file).size(), 250u);
}

TEST(Safetensors, EmptyTensorsMayLieAnywhereBetweenOthers) {
  const std::string header = R"({
    "x": {"dtype": "F32", "shape": [0], "data_offsets": [0,0]},
    "y": {"dtype": "F32", "shape": [1], "data_offsets": [0,4]},
    "z": {"dtype": "F32", "shape": [0,9], "data_offsets": [4,4]}})";
  EXPECT_EQ(Refusal(FileWithHeader(header, "1234")), "accepted");
}

}  // namespace
}  // namespace sluice::model
