#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "tensor/dtype.h"

namespace sluice {
namespace {

bool IsAligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(kBufferAlignment) == 0;
}

TEST(Buffer, IsZeroedAndAligned) {
  for (const int64_t n : {1, 63, 64, 1000}) {
    const Buffer buffer(n);
    EXPECT_EQ(buffer.size(), n);
    EXPECT_TRUE(IsAligned(buffer.data()));
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(buffer.data()[i], std::byte{0});
  }
}

TEST(Buffer, NoBytesAreNoMemory) {
  EXPECT_EQ(Buffer().data(), nullptr);
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

TEST(Buffer, MovingHandsTheBytesOver) {
  Buffer first(10);
  std::byte* bytes = first.data();
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), bytes);
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), bytes);
  EXPECT_EQ(third.size(), 10);
}

TEST(Arena, CountsWhatLayingOutTakes) {
  const auto lay_out = [](Arena& arena) {
    const std::span<uint8_t> bytes = arena.Take<uint8_t>(3);
    const std::span<double> doubles = arena.Take<double>(9);
    return std::pair(bytes, doubles);
  };
  Arena counting;
  EXPECT_EQ(lay_out(counting).second.data(), nullptr);
  EXPECT_EQ(counting.n_taken(), 64 + 128);

  const Buffer buffer(counting.n_taken());
  Arena arena({buffer.data(), static_cast<size_t>(buffer.size())});
  const auto [bytes, doubles] = lay_out(arena);
  EXPECT_EQ(bytes.size(), 3U);
  EXPECT_EQ(doubles.size(), 9U);
  EXPECT_TRUE(IsAligned(bytes.data()));
  EXPECT_TRUE(IsAligned(doubles.data()));
  EXPECT_EQ(static_cast<void*>(doubles.data()), buffer.data() + 64);
}

TEST(ArenaDeathTest, RefusesMoreThanThereIs) {
  const Buffer buffer(64);
  Arena arena({buffer.data(), 64});
  EXPECT_DEATH(arena.Take<uint8_t>(65), "n_taken_");
}

TEST(DType, NamesAreThoseOfSafetensors) {
  for (const DType dtype : {DType::kBf16, DType::kF32, DType::kF8E4m3, DType::kF8E8m0, DType::kI8,
                            DType::kU8, DType::kI32, DType::kI64, DType::kF16}) {
    EXPECT_EQ(DTypeOf(NameOf(dtype)), dtype);
  }
  EXPECT_EQ(NameOf(DType::kF8E4m3), "F8_E4M3");
  EXPECT_EQ(SizeOf(DType::kF32), 4);
  EXPECT_EQ(DTypeOf("F64"), std::nullopt);
}

}  // namespace
}  // namespace sluice
