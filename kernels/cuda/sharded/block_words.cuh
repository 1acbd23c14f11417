// Access to exchange blocks by words of 32 bits, because a row's part of a block is aligned only to
// 4 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// Returns a 32-bit word of a row's part of an exchange block. The sizes and addresses of parts are
/// multiples of 4 bytes.
__device__ __forceinline__ std::uint32_t& word_of(std::byte* part, std::size_t byte) {
  return *reinterpret_cast<std::uint32_t*>(part + byte);
}
__device__ __forceinline__ std::uint32_t word_of(const std::byte* part, std::size_t byte) {
  return *reinterpret_cast<const std::uint32_t*>(part + byte);
}
__device__ __forceinline__ void write_sum(std::byte* part, std::size_t byte, uint128_t sum) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    word_of(part, byte + 4 * static_cast<std::size_t>(i)) =
        static_cast<std::uint32_t>(sum >> 32 * i);
}
__device__ __forceinline__ uint128_t read_sum(const std::byte* part, std::size_t byte) {
  uint128_t sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    sum |= static_cast<uint128_t>(word_of(part, byte + 4 * static_cast<std::size_t>(i))) << 32 * i;
  return sum;
}

/// Writes the header of an exchange block. One thread of a launch must call this function.
__device__ __forceinline__ void write_header(const ShardedTask& task, ShardedExchange exchange) {
  std::byte* block = task.send[static_cast<int>(exchange)];
  *reinterpret_cast<sharded::BlockHeader*>(block) = {
      sharded::kMagic, static_cast<std::uint32_t>(exchange), task.fingerprint};
}

}  // namespace fairdraw::cuda
