// The first entries of rows of logits, and what normalises their log-probabilities.
//
// Contract. Of each active row that is ok its n first entries in order (fewer where fewer are above
// -inf), its largest value, and the weight of all its values at temperature 1. Nothing is written of
// an inactive row.
//
// Algorithm and cost. A block a row. The rows have been indexed, so that little of them is read
// again: row_heads.cuh. Numerics: common/tile_weights.h. Determinism: integers, and a sort.
#include "cuda/outputs/row_heads.h"

#include "cuda/device/row_launch.h"
#include "cuda/outputs/index_mass.cuh"
#include "cuda/outputs/row_heads.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = kEndThreads;
static_assert(HeadSearch::kMost >= RowHeads::kMax && kThreads >= RowHeads::kMax);

/// Shared memory of a block; the row's keys are in dynamic shared memory.
struct Shared {
  HeadSearch::Memory search;
  HeadEntries head;
  IndexMass::Scratch mass;
};

__global__ void __launch_bounds__(kThreads)
    find_heads_kernel(const __grid_constant__ HeadsTask task) {
  __shared__ Shared shared;
  extern __shared__ std::int32_t keys[];
  const std::int64_t number = blockIdx.x;
  const auto thread = static_cast<int>(threadIdx.x);
  if (task.active.given() && task.active.data[number] == 0) return;
  const RowStatus status = task.index.statuses.data[number];
  if (status != RowStatus::ok) {
    if (thread != 0) return;
    task.records[number] = {status, -1, 0, 0, 0, 0, 0, 0, 0};
    task.heads.counts[number] = 0;
    return;
  }
  const RowIndex index = index_of(task.index, number, task.rows.vocab);
  for (int tile = thread; tile < index.tiles; tile += kThreads) keys[tile] = index.keys[tile];
  const IndexMass mass = IndexMass::of(index, shared.mass);
  const FilteredRow row = FilteredRow::whole(task.rows, number, /*from_probs=*/false);
  const TileKeys found = find_tile_keys({keys, nullptr, index.tiles});
  const HeadSearch::Head head = HeadSearch(shared.search)
                                    .find({row, keys, index.tiles}, found, task.n.at(number),
                                          shared.head);
  const int n = ::min(head.n, task.n.at(number));
  if (thread < n) {
    task.heads.values[number * RowHeads::kMax + thread] = shared.head.value[thread];
    task.heads.ids[number * RowHeads::kMax + thread] = shared.head.id[thread];
  }
  if (thread != 0) return;
  task.heads.counts[number] = n;
  task.records[number] = {RowStatus::ok,
                          -1,
                          mass.max,
                          row.low,
                          static_cast<std::int32_t>(row.tie_end),
                          0,
                          0,
                          static_cast<std::uint64_t>(mass.weight),
                          static_cast<std::uint64_t>(mass.weight >> 64)};
}

}  // namespace

cudaError_t find_heads(const HeadsTask& task, cudaStream_t stream) {
  const std::int64_t bytes = tiles_of(task.rows.vocab) * std::int64_t{sizeof(std::int32_t)};
  const ClusterLaunch launch(task.rows.rows, 1, kThreads, static_cast<int>(bytes), stream);
  return cudaLaunchKernelEx(&launch.config, find_heads_kernel, task);
}

}  // namespace fairdraw::cuda
