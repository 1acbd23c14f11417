// The first entries of a row, in one block's shared memory: as the row kernel noted them, or
// collected by a pass over the row where it did not.
#pragma once

#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/row_filter/filtered_row.cuh"

namespace fairdraw::cuda {

/// Entries in order: value descending, token id ascending among equals.
struct HeadEntries {
  float value[RowHeads::kMax];
  std::int32_t id[RowHeads::kMax];
  float found_value[RowHeads::kMax];  ///< as they were collected
  std::int32_t found_id[RowHeads::kMax];
  int found;
};

/// Calls visit(token, x) for all values of a row that are >= least, over a block of kThreads.
template <int kThreads, class Visit>
__device__ void visit_from(const FilteredRow& row, float least, const Visit& visit) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (row.edit_bits != nullptr) {
    for (std::int64_t token = thread; token < row.vocab; token += kThreads) {
      const float x = row.value(token);
      if (x >= least) visit(token, x);
    }
    return;
  }
  visit_places(row.values, row.vocab, thread, kThreads, [&](std::int64_t token, float x) {
    if (x >= least) visit(token, x);
  });
}

/// The survivors of a row that has few: at most RowHeads::kMax. Sorted by counting.
template <int kThreads>
__device__ int collect_head(const FilteredRow& set, HeadEntries& entries) {
  static_assert(kThreads >= RowHeads::kMax, "a thread an entry");
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) entries.found = 0;
  __syncthreads();
  visit_from<kThreads>(set, set.low, [&](std::int64_t token, float x) {
    if (!set.keeps(token, x)) return;
    const int place = atomicAdd(&entries.found, 1);
    if (place >= RowHeads::kMax) return;  // not reached: there are few
    entries.found_value[place] = x;
    entries.found_id[place] = static_cast<std::int32_t>(token);
  });
  __syncthreads();
  const int n = min(entries.found, RowHeads::kMax);
  if (thread < n) {
    const float x = entries.found_value[thread];
    const std::int32_t id = entries.found_id[thread];
    int before = 0;
    for (int i = 0; i < n; ++i) {
      const float other = entries.found_value[i];
      before += other > x || (other == x && entries.found_id[i] < id) ? 1 : 0;
    }
    entries.value[before] = x;
    entries.id[before] = id;
  }
  __syncthreads();
  return n;
}

/// The noted entries of a row, `n` of them.
__device__ inline void load_head(const RowHeads& heads, std::int64_t number, int n,
                                 HeadEntries& entries) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < n) {
    entries.value[thread] = heads.values[number * RowHeads::kMax + thread];
    entries.id[thread] = heads.ids[number * RowHeads::kMax + thread];
  }
  __syncthreads();
}

}  // namespace fairdraw::cuda
