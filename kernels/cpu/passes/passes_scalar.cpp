// Implements the passes in portable C++.
#include <algorithm>
#include <bit>
#include <limits>

#include "cpu/passes/passes.h"

namespace fairdraw::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

RowScan scan(const float* x, std::size_t n, float* group_max) {
  RowScan result{kMinusInfinity, false};
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    float group[kGroups];
    std::fill_n(group, kGroups, kMinusInfinity);
    const std::size_t length = std::min(kBlock, n - begin);
    for (std::size_t i = 0; i < length; ++i) {
      const float value = x[begin + i];
      result.has_nan |= value != value;
      group[i % kGroups] = std::max(group[i % kGroups], value);  // std::max keeps the left value if
                                                                 // the right value is NaN
    }
    result.max = std::max(result.max, *std::max_element(group, group + kGroups));
    if (group_max != nullptr) group_max = std::copy_n(group, kGroups, group_max);
  }
  return result;
}

Range range(const float* x, std::size_t n) {
  const auto [smallest, largest] = std::minmax_element(x, x + n);
  return {*smallest, *largest};
}

std::size_t count_at_least(const float* x, std::size_t n, float pivot) {
  return static_cast<std::size_t>(
      std::count_if(x, x + n, [pivot](float value) { return value >= pivot; }));
}

std::size_t collect_many(const float* x, std::size_t n, float low, float high, float* out) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    out[count] = x[i];
    count += x[i] >= low && x[i] <= high ? 1 : 0;
  }
  return count;
}

std::size_t collect_few(const float* x, std::size_t n, float low, float* out) {
  return collect_many(x, n, low, std::numeric_limits<float>::infinity(), out);
}

std::size_t blocks_at_least(const float* group_max, std::size_t blocks, float pivot,
                            std::uint32_t* out) {
  std::size_t count = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const float* group = group_max + b * kGroups;
    const bool any = std::any_of(group, group + kGroups, [=](float m) { return m >= pivot; });
    if (any) out[count++] = static_cast<std::uint32_t>(b);
  }
  return count;
}

std::uint64_t sum_listed(const float* x, const std::uint64_t* weight, std::size_t n, float low) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < n; ++i) total += x[i] >= low ? weight[i] : 0;
  return total;
}

void mask_bits(const float* x, std::size_t n, float low, std::uint32_t* out) {
  std::fill_n(out, (n + 31) / 32, 0U);
  for (std::size_t i = 0; i < n; ++i) out[i / 32] |= (x[i] >= low ? 1U : 0U) << (i % 32);
}

RowScan copy_allowed(const float* x, std::size_t n, const std::uint32_t* allowed, float banned,
                     float* out) {
  const RowScan found = scan(x, n, nullptr);
  for (std::size_t i = 0; i < n; ++i) {
    const bool stays = allowed == nullptr || ((allowed[i / 32] >> (i % 32)) & 1U) != 0;
    out[i] = stays ? x[i] : banned;
  }
  return found;
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0) {  // zero or a subnormal number: mantissa * 2^-24, which is exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1fU ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

void from_float16(const std::uint16_t* in, std::size_t n, float* out) {
  std::transform(in, in + n, out, from_half);
}

void from_bfloat16(const std::uint16_t* in, std::size_t n, float* out) {
  std::transform(in, in + n, out, [](std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  });
}

}  // namespace

const Passes kScalarPasses{scan,         range,           count_at_least, collect_many,
                           collect_few,  blocks_at_least, sum_listed,     mask_bits,
                           copy_allowed, from_float16,    from_bfloat16};

}  // namespace fairdraw::cpu
