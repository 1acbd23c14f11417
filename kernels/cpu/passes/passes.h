// Passes over a row of float32 values, which are the building blocks of the CPU sampler.
//
// Each instruction set has the same table of passes, whose results are equal bit for bit, because
// sums are integers and selections are exact. Precondition of all passes except `scan` and
// `copy_allowed`: no value is NaN. Pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Number of values in a block of `scan`.
inline constexpr std::size_t kBlock = 512;
/// Number of maxima of each block of `scan`: maximum j is that of the elements i with i % kGroups =
/// j. The number kGroups is the number of lanes of the widest vector (16 floats), so that no
/// pass has to shuffle lanes.
inline constexpr std::size_t kGroups = 16;
/// Number of elements after their results that passes may overwrite, which is the width of a
/// vector.
inline constexpr std::size_t kSlack = 64;

struct RowScan {
  float max = 0;  ///< maximum of the values that are not NaN, or -inf for an empty range
  bool has_nan = false;
};

struct Range {
  float min = 0;
  float max = 0;
};

struct Passes {
  /// Finds the maximum, and whether any value is NaN. The array group_max, which may be null, has
  /// kGroups floats for each block of kBlock values. The last block may be partial, and a group
  /// without values gets -inf.
  RowScan (*scan)(const float* x, std::size_t n, float* group_max);

  /// Returns the smallest and the largest of n values, where n is at least 1.
  Range (*range)(const float* x, std::size_t n);

  /// Returns the number of values that are at least `pivot`.
  std::size_t (*count_at_least)(const float* x, std::size_t n, float pivot);

  /// Copies the values in [low, high], in order, without a branch, which is the faster pass if many
  /// vectors have a value to copy. Returns the number of copied values, and writes up to kSlack
  /// values after them.
  std::size_t (*collect_many)(const float* x, std::size_t n, float low, float high, float* out);

  /// Copies the values >= low, in order, with one branch for four vectors, which is the faster pass
  /// if few values qualify. Returns the number of copied values, and writes up to kSlack values
  /// after them.
  std::size_t (*collect_few)(const float* x, std::size_t n, float low, float* out);

  /// Writes the numbers of the blocks that have a group maximum of at least `pivot`, and returns
  /// how many there are.
  std::size_t (*blocks_at_least)(const float* group_max, std::size_t blocks, float pivot,
                                 std::uint32_t* out);

  /// Returns the sum of the given weights over the values >= low.
  std::uint64_t (*sum_listed)(const float* x, const std::uint64_t* weight, std::size_t n,
                              float low);

  /// Writes ceil(n / 32) words, in which bit i % 32 of word i / 32 says whether x[i] >= low.
  void (*mask_bits)(const float* x, std::size_t n, float low, std::uint32_t* out);

  /// Copies values, and writes `banned` in place of each value whose bit in `allowed` is 0. The
  /// bits are as in mask_bits; if `allowed` is null, all bits are 1. Returns the scan of all values
  /// of x, because banned values are not read again. `out` may be x.
  RowScan (*copy_allowed)(const float* x, std::size_t n, const std::uint32_t* allowed, float banned,
                          float* out);

  /// Exact conversions of 16-bit floats to float32.
  void (*from_float16)(const std::uint16_t* in, std::size_t n, float* out);
  void (*from_bfloat16)(const std::uint16_t* in, std::size_t n, float* out);
};

/// Returns the passes of a target that this machine has; CpuTarget::best stands for the best of
/// them.
const Passes& passes_for(CpuTarget target);

/// Returns the passes of a target for which passes_simd.cpp was compiled, or null.
const Passes* simd_passes(CpuTarget target);

/// Passes in portable C++ without intrinsics, with std::fma in place of the instruction.
extern const Passes kScalarPasses;

}  // namespace fairdraw::cpu
