// The numbers of rows that `batches` and `batches_law` ask for.
#pragma once

#include <cstdint>

namespace fairdraw::harness {

/// Around what engines choose kernels by: one row, a warp's, a block's and a grid's worth of them,
/// more than any GPU has multiprocessors. Odd where it may be: the last group of rows is not whole.
inline constexpr std::int64_t kBatchSizes[] = {1, 2, 3, 8, 33, 65, 129, 257, 513};

}  // namespace fairdraw::harness
