// Share of the target that a prefix of a block may represent (fairdraw/speculative.h, block
// verification). The arithmetic is the same for every backend.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/wide_integers.h"

namespace fairdraw {

/// Share of the empty prefix, which is the whole target.
inline constexpr uint128_t kWholeShare = static_cast<uint128_t>(1) << 64;

/// Returns whether word * a < share * b, for a and b of at most 100 bits and 0 < share <= 2^64.
FAIRDRAW_HOST_DEVICE inline bool product_is_below(std::uint64_t word, uint128_t a, uint128_t share,
                                                  uint128_t b) {
  const uint128_t left = multiply_high(word, a);
  const auto left_low = word * static_cast<std::uint64_t>(a);
  if (share == kWholeShare) return left < b;
  const auto part = static_cast<std::uint64_t>(share);
  const uint128_t right = multiply_high(part, b);
  return left != right ? left < right : left_low < part * static_cast<std::uint64_t>(b);
}

/// Returns min(2^64, ceil(share p zq / (q zp))), the share of a prefix with one more drafted token.
/// Here p and q > 0 are the token's weights in rows of target and draft that sum to zp and zq. The
/// result is the smallest number t with t q zp >= share p zq. A quotient of 165 bits by 100 bits
/// has no instruction, so a quotient in doubles begins a bisection. The five roundings of the
/// doubles make an error below 2^-50 of the quotient, so the estimate below is at most 2^17 + 3
/// less than the result.
FAIRDRAW_HOST_DEVICE inline uint128_t next_share(uint128_t share, std::uint64_t p, std::uint64_t zp,
                                                 std::uint64_t q, std::uint64_t zq) {
  const uint128_t a = static_cast<uint128_t>(q) * zp;
  const uint128_t b = static_cast<uint128_t>(p) * zq;
  if (b == 0 || share == 0) return 0;
  if (product_is_below(~std::uint64_t{0}, a, share, b)) return kWholeShare;
  const double estimate =
      nearest_double(share) * nearest_double(b) / nearest_double(a) * (1 - 0x1p-48);
  std::uint64_t found = estimate < 1 ? 0 : static_cast<std::uint64_t>(estimate) - 1;
  // Finds the largest number t with t a < share b.
  for (std::uint64_t step = std::uint64_t{1} << 17; step != 0; step >>= 1) {
    if (step <= ~found && product_is_below(found + step, a, share, b)) found += step;
  }
  return static_cast<uint128_t>(found) + 1;
}

}  // namespace fairdraw
