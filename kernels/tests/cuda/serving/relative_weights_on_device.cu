#include "cuda/device/row_launch.h"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/filtered_distribution.cuh"
#include "tests/cuda/serving/relative_weights_on_device.h"

namespace fairdraw::suites {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    relative_weights_kernel(const __grid_constant__ cuda::FilteredRows rows,
                            const __grid_constant__ RelativeWeights result, int blocks) {
  __shared__ cuda::ChainSums sums;
  const cuda::RowCluster cluster{blocks, static_cast<int>(blockIdx.x)};
  cluster.announce();
  cuda::Distribution<cuda::FilteredWeight> row = cuda::distribution_of(rows, 0);
  cuda::Distribution<cuda::FilteredWeight> same = row;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < rows.rows.vocab;
       i += std::int64_t{blocks} * kThreads) {
    result.of_tokens[i] = row.weight(i);
  }
  cluster.await_all();
  const bool writes = cluster.rank == 0 && threadIdx.x == 0;
  if (writes) {
    result.bounds[0] = row.bounds.low;
    result.bounds[1] = row.bounds.high;
  }
  cuda::ChainDraw draw(cluster, sums, rows.rows.vocab);
  cuda::find_totals(draw, row, same);
  // The total must be the same, whether it is computed for the target or for the draft.
  if (writes) *result.total = row.total() == same.total() ? row.total() : 0;
}

}  // namespace

cudaError_t relative_weights(const cuda::FilteredRows& rows, const RelativeWeights& result,
                             int blocks) {
  return cuda::launch_clusters(relative_weights_kernel, 1, blocks, kThreads, nullptr, rows, result,
                               blocks);
}

}  // namespace fairdraw::suites
