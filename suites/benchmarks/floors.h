// What a sampler cannot be faster than.
#pragma once

#include <cstddef>

#include "fairdraw/types.h"

namespace fairdraw::suites {

/// F1: the largest of n values, by one SIMD max-reduction with four chains.
float max_reduction(const float* x, std::size_t n);

/// F2: maxima and sums of the integer weights by tiles at temperature 1, with the target's pass.
std::uint64_t max_and_weights(const float* x, std::size_t n, CpuTarget target);

}  // namespace fairdraw::suites
