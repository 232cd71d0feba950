#include "tensor/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/golden_file_test_impl.h"

namespace sluice {
namespace {

using harness::GoldenTensor;
using harness::Tables;

TEST(Formats, EveryBf16BecomesTheE4m3CodeOfTheReference) {
  const auto* want = Tables()["bf16_to_e4m3"].as<uint8_t>();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = ToFloat({static_cast<uint16_t>(bits)});
    if (std::isnan(x)) continue;
    ASSERT_EQ(ToE4m3(x), want[bits]) << x;
  }
}

TEST(Formats, EveryBf16BecomesTheE2m1CodeOfTheReference) {
  const auto* want = Tables()["bf16_to_e2m1"].as<uint8_t>();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = ToFloat({static_cast<uint16_t>(bits)});
    if (std::isnan(x)) continue;
    ASSERT_EQ(ToE2m1(x), want[bits]) << x;
  }
}

TEST(Formats, EveryCodeHasTheValueOfTheReference) {
  const auto* e4m3 = Tables()["e4m3_values"].as<float>();
  for (int code = 0; code < 256; ++code) {
    const float value = FromE4m3(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(e4m3[code])) << code;
    }
  }
  const auto* e2m1 = Tables()["e2m1_values"].as<float>();
  for (uint8_t code = 0; code < 16; ++code) {
    EXPECT_EQ(std::bit_cast<uint32_t>(FromE2m1(code)), std::bit_cast<uint32_t>(e2m1[code]));
  }
}

TEST(Formats, CodesSurviveTheirOwnValues) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;
    EXPECT_EQ(ToE4m3(FromE4m3(static_cast<uint8_t>(code))), code);
  }
  for (uint8_t code = 0; code < 16; ++code) EXPECT_EQ(ToE2m1(FromE2m1(code)), code);
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(FromE8m0(static_cast<uint8_t>(code)), std::ldexp(1.0F, code - 127)) << code;
  }
}

TEST(Formats, EveryBf16SurvivesFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Bf16 x{static_cast<uint16_t>(bits)};
    if (std::isnan(ToFloat(x))) continue;
    ASSERT_EQ(ToBf16(ToFloat(x)), x);
  }
  EXPECT_TRUE(std::isnan(RoundToBf16(std::numeric_limits<float>::quiet_NaN())));
  // A signalling NaN whose payload lies below bf16 must not become infinity.
  EXPECT_TRUE(std::isnan(RoundToBf16(std::bit_cast<float>(0x7F800001U))));
}

TEST(Formats, Bf16RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(RoundToBf16(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(RoundToBf16(1.0F + 0x1p-7F + 0x1p-8F), 1.0F + 0x1p-6F);
  EXPECT_EQ(RoundToBf16(1.0F + 0x1p-8F + 0x1p-20F), 1.0F + 0x1p-7F);
  EXPECT_EQ(RoundToBf16(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
}

TEST(Formats, SmallestPowerOfTwoAboveComesFromTheBits) {
  const GoldenTensor& in = Tables()["pow2ceil.in"];
  const auto* want = Tables()["pow2ceil.exponent"].as<int32_t>();
  for (int64_t i = 0; i < in.n_values(); ++i) {
    EXPECT_EQ(Pow2CeilExponent(in.as<float>()[i]), want[i]) << in.as<float>()[i];
  }
}

struct Case {
  GroupFormat format;
  const char* name;
};

class GroupFormats : public testing::TestWithParam<Case> {
 protected:
  const GoldenTensor& Golden(const char* part) const {
    return Tables()[std::string(GetParam().name) + part];
  }
};

INSTANTIATE_TEST_SUITE_P(All,
                         GroupFormats,
                         testing::Values(Case{GroupFormat::kFp8, "fp8"},
                                         Case{GroupFormat::kFp4Mx, "fp4_mx"},
                                         Case{GroupFormat::kFp4Nv, "fp4_nv"}),
                         [](const auto& test) { return test.param.name; });

TEST_P(GroupFormats, EveryLargestMagnitudeGivesTheScaleOfTheReference) {
  const GroupFormat format = GetParam().format;
  const auto n = GroupSize(format);
  const auto* want = Golden(".scale_of_amax").as<uint8_t>();
  for (int bits = 0; bits < 0x7F80; ++bits) {
    std::vector<Bf16> group(static_cast<size_t>(n), Bf16{0});
    group[5] = {static_cast<uint16_t>(bits | 0x8000)};
    uint8_t codes[32];
    uint8_t scale;
    QuantizeRow(format, group.data(), n, codes, &scale);
    ASSERT_EQ(scale, want[bits]) << ToFloat(group[5]);
  }
}

TEST_P(GroupFormats, RowsBecomeTheCodesAndValuesOfTheReference) {
  const GroupFormat format = GetParam().format;
  const auto n = GroupSize(format);
  const int32_t code_bytes = CodeBytes(format, n);
  const GoldenTensor& in = Golden(".in");
  for (int64_t row = 0; row < in.shape[0]; ++row) {
    uint8_t codes[32];
    uint8_t scale;
    QuantizeRow(format, in.as<Bf16>() + row * n, n, codes, &scale);
    ASSERT_EQ(scale, Golden(".scales").as<uint8_t>()[row]) << row;
    for (int32_t i = 0; i < code_bytes; ++i) {
      ASSERT_EQ(codes[i], Golden(".codes").as<uint8_t>()[row * code_bytes + i]) << row << ' ' << i;
    }
    float values[32];
    DequantizeRow(format, codes, &scale, n, values);
    for (int32_t i = 0; i < n; ++i) {
      const Bf16 want = Golden(".out").as<Bf16>()[row * n + i];
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(ToFloat(want)));
    }
  }
}

TEST_P(GroupFormats, AGroupDoesNotSeeItsNeighbours) {
  const GroupFormat format = GetParam().format;
  const auto n = GroupSize(format);
  const GoldenTensor& in = Golden(".in");
  const auto n_all = static_cast<int32_t>(in.n_values());
  std::vector<uint8_t> codes(static_cast<size_t>(CodeBytes(format, n_all)));
  std::vector<uint8_t> scales(static_cast<size_t>(ScaleBytes(format, n_all)));
  QuantizeRow(format, in.as<Bf16>(), n_all, codes.data(), scales.data());
  EXPECT_EQ(codes, Golden(".codes").bytes);
  EXPECT_EQ(scales, Golden(".scales").bytes);
  std::vector<float> values(static_cast<size_t>(n_all));
  DequantizeRow(format, codes.data(), scales.data(), n_all, values.data());
  for (int32_t i = 0; i < n_all; ++i) {
    ASSERT_EQ(ToBf16(values[static_cast<size_t>(i)]), Golden(".out").as<Bf16>()[i]) << i / n;
  }
}

// vLLM clamps the scale instead, which differs below 448e-4 (spec model.md §7.2, 8).
TEST(Formats, Fp8FloorIsOnTheLargestMagnitude) {
  Bf16 group[32] = {};
  uint8_t codes[32];
  uint8_t scale;
  QuantizeRow(GroupFormat::kFp8, group, 32, codes, &scale);
  EXPECT_EQ(scale, 105);  // 2^-22
  group[0] = ToBf16(0.03F);
  QuantizeRow(GroupFormat::kFp8, group, 32, codes, &scale);
  EXPECT_EQ(scale, 127 - 13);  // 0.03 / 448 = 2^-13.9
}

// A divisor turned into a product with its reciprocal misplaces ties (spec model.md §7.3, 22).
TEST(Formats, Fp4NvDividesByTheRoundedScale) {
  Bf16 group[16] = {};
  group[0] = ToBf16(6 * 1.5F * 0x1p-9F);  // ties to scale 2 * 2^-9; 4.5 is then code 4 (value 4)
  uint8_t codes[8];
  uint8_t scale;
  QuantizeRow(GroupFormat::kFp4Nv, group, 16, codes, &scale);
  EXPECT_EQ(scale, 2);
  EXPECT_EQ(codes[0] & 15, 6);
  float values[16];
  DequantizeRow(GroupFormat::kFp4Nv, codes, &scale, 16, values);
  EXPECT_EQ(values[0], 8 * 0x1p-9F);  // spec model.md, appendix A: re-quantising would change it
}

}  // namespace
}  // namespace sluice
