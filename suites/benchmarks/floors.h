// Lower bounds of a sampler's time on the CPU.
#pragma once

#include <cstddef>

#include "fairdraw/types.h"

namespace fairdraw::suites {

/// Returns the largest of n values (floor F1), by one SIMD max-reduction with four chains.
float max_reduction(const float* x, std::size_t n);

/// Computes the maxima and the sums of the integer weights of all tiles at temperature 1, with the
/// target's pass (floor F2).
std::uint64_t max_and_weights(const float* x, std::size_t n, CpuTarget target);

}  // namespace fairdraw::suites
