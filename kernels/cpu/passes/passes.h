// The passes over a row of float32 that the CPU sampler is composed of.
//
// Each instruction set has the same table of passes and gives the same bits: sums are integers,
// selections are exact. Values are not NaN but in `scan`. No alignment is asked of any pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Values a block of `scan`.
inline constexpr std::size_t kBlock = 512;
/// `scan` keeps this many maxima a block: element i of a block counts for maximum i % kGroups.
/// It is the widest vector (16 floats), so that no pass has to shuffle lanes.
inline constexpr std::size_t kGroups = 16;
/// Room that passes may overwrite after the values that they report (a vector's width).
inline constexpr std::size_t kSlack = 64;

struct RowScan {
  float max = 0;  ///< over values that are not NaN; -inf for an empty range
  bool has_nan = false;
};

struct Range {
  float min = 0;
  float max = 0;
};

struct Passes {
  /// Maximum and NaN check. group_max: kGroups floats a block of kBlock values (the last block
  /// may be partial; a group without values gets -inf); may be null.
  RowScan (*scan)(const float* x, std::size_t n, float* group_max);

  /// Smallest and largest of n >= 1 values.
  Range (*range)(const float* x, std::size_t n);

  /// How many values are >= pivot.
  std::size_t (*count_at_least)(const float* x, std::size_t n, float pivot);

  /// Copies values in [low, high], in order, without a branch: for values of which many vectors
  /// have one to copy. Returns how many; writes up to kSlack values after them.
  std::size_t (*collect_many)(const float* x, std::size_t n, float low, float high, float* out);

  /// Copies the values >= low, in order, where few are: a branch for four vectors. Returns how
  /// many; writes up to kSlack values after them.
  std::size_t (*collect_few)(const float* x, std::size_t n, float low, float* out);

  /// Writes the numbers of blocks that have a group maximum >= pivot; returns how many.
  std::size_t (*blocks_at_least)(const float* group_max, std::size_t blocks, float pivot,
                                 std::uint32_t* out);

  /// Sum of given weights where the value is >= low.
  std::uint64_t (*sum_listed)(const float* x, const std::uint64_t* weight, std::size_t n,
                              float low);

  /// Bit i % 32 of word i / 32: x[i] >= low. Writes ceil(n / 32) words.
  void (*mask_bits)(const float* x, std::size_t n, float low, std::uint32_t* out);

  /// Copies values, `banned` where the bit of `allowed` (as in mask_bits; null: all are 1) is 0.
  /// Returns the scan of all of x, the last time that banned values are read. `out`
  /// may be x.
  RowScan (*copy_allowed)(const float* x, std::size_t n, const std::uint32_t* allowed, float banned,
                          float* out);

  /// Exact conversions to float32.
  void (*from_float16)(const std::uint16_t* in, std::size_t n, float* out);
  void (*from_bfloat16)(const std::uint16_t* in, std::size_t n, float* out);
};

/// The passes of a target that is available (best resolves to the best one).
const Passes& passes_for(CpuTarget target);

/// The passes of a target that passes_simd.cpp was compiled for; null for the others.
const Passes* simd_passes(CpuTarget target);

/// Portable C++, no intrinsics: std::fma where the others have an instruction.
extern const Passes kScalarPasses;

}  // namespace fairdraw::cpu
