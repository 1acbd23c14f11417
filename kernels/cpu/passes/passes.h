// Passes over a row of float32 values, the building blocks of the CPU sampler.
//
// Each instruction set has the same table of passes, with bit-identical results: sums are integers,
// selections are exact. Precondition, except for `scan` and `copy_allowed`: no value is NaN.
// Pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Number of values per block of `scan`.
inline constexpr std::size_t kBlock = 512;
/// Number of maxima per block of `scan`: element i of a block counts for maximum i % kGroups.
/// kGroups is the number of lanes of the widest vector (16 floats), so that no pass has to shuffle
/// lanes.
inline constexpr std::size_t kGroups = 16;
/// Number of elements after their results that passes may overwrite (a vector's width).
inline constexpr std::size_t kSlack = 64;

struct RowScan {
  float max = 0;  ///< maximum of the values that are not NaN; -inf for an empty range
  bool has_nan = false;
};

struct Range {
  float min = 0;
  float max = 0;
};

struct Passes {
  /// Finds the maximum and NaN. group_max: kGroups floats per block of kBlock values (the last
  /// block may be partial; a group without values gets -inf); may be null.
  RowScan (*scan)(const float* x, std::size_t n, float* group_max);

  /// Returns the smallest and the largest of n >= 1 values.
  Range (*range)(const float* x, std::size_t n);

  /// Returns the number of values >= pivot.
  std::size_t (*count_at_least)(const float* x, std::size_t n, float pivot);

  /// Copies values in [low, high], in order, without a branch: the faster pass if many vectors have
  /// a value to copy. Returns their number; writes up to kSlack values after them.
  std::size_t (*collect_many)(const float* x, std::size_t n, float low, float high, float* out);

  /// Copies the values >= low, in order, with a branch per four vectors: the faster pass if few
  /// values qualify. Returns their number; writes up to kSlack values after them.
  std::size_t (*collect_few)(const float* x, std::size_t n, float low, float* out);

  /// Writes the numbers of the blocks that have a group maximum >= pivot; returns their number.
  std::size_t (*blocks_at_least)(const float* group_max, std::size_t blocks, float pivot,
                                 std::uint32_t* out);

  /// Returns the sum of the given weights of values >= low.
  std::uint64_t (*sum_listed)(const float* x, const std::uint64_t* weight, std::size_t n,
                              float low);

  /// Writes ceil(n / 32) words: bit i % 32 of word i / 32 is x[i] >= low.
  void (*mask_bits)(const float* x, std::size_t n, float low, std::uint32_t* out);

  /// Copies values, but replaces them by `banned` for each bit of `allowed` that is 0 (as in
  /// mask_bits; null: all bits are 1). Returns the scan of all values of x, because banned values
  /// are not read again. `out` may be x.
  RowScan (*copy_allowed)(const float* x, std::size_t n, const std::uint32_t* allowed, float banned,
                          float* out);

  /// Exact conversions of 16-bit floats to float32.
  void (*from_float16)(const std::uint16_t* in, std::size_t n, float* out);
  void (*from_bfloat16)(const std::uint16_t* in, std::size_t n, float* out);
};

/// Returns the passes of an available target (best resolves to the best one).
const Passes& passes_for(CpuTarget target);

/// Returns the passes of a target that passes_simd.cpp was compiled for, or null.
const Passes* simd_passes(CpuTarget target);

/// Passes in portable C++ without intrinsics, with std::fma instead of the instruction.
extern const Passes kScalarPasses;

}  // namespace fairdraw::cpu
