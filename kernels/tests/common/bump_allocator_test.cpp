// Tests how arrays are placed in a block of memory: their addresses, and whether the requested size
// equals the used size.
#include "common/bump_allocator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

namespace fairdraw {
namespace {

TEST(BumpAllocator, PlacesArraysOneAfterAnotherAligned) {
  alignas(64) std::array<std::byte, 1024> block{};
  BumpAllocator memory(block.data(), BumpAllocator::kHostAlignment);
  const std::byte* bytes = memory.allocate<std::byte>(65);
  double* numbers = nullptr;
  memory.allocate(numbers, 8);
  EXPECT_EQ(bytes, block.data());
  EXPECT_EQ(reinterpret_cast<std::byte*>(numbers), block.data() + 128);
  EXPECT_EQ(memory.bytes(), 192);
}

TEST(BumpAllocator, CountsTheSameBytesWithoutABlock) {
  alignas(256) std::array<std::byte, 1024> block{};
  BumpAllocator memory(block.data()), size(nullptr);
  for (const std::int64_t count : {1, 63, 0, 65}) {
    EXPECT_EQ(memory.allocate<float>(count) == nullptr, count == 0);
    EXPECT_EQ(size.allocate<float>(count), nullptr);
    EXPECT_EQ(size.bytes(), memory.bytes());
  }
  EXPECT_EQ(size.bytes(), 256 + 256 + 512);
}

TEST(BumpAllocator, HugeSizesDoNotOverflow) {
  BumpAllocator size(nullptr);
  for (int i = 0; i < 1000; ++i) {
    size.allocate<double>(std::numeric_limits<std::int64_t>::max());
  }
  EXPECT_GT(size.bytes(), std::int64_t{1} << 50);
}

}  // namespace
}  // namespace fairdraw
