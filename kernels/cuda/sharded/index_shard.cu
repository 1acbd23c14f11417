// Computes the index of a shard's whole tiles and stores it in the workspace, where the other
// phases of a sharded call read the index instead of the row.
//
// Contract. The index covers each row that is not padding, and each of the shard's whole tiles. For
// each tile, the index has the largest allowed value (or a fault, tile_pass.cuh), the sum of
// weights, and the number of allowed tokens. If filters may need candidates, the index also has the
// keys of the tile's groups (tiles/group_keys.cuh). Ids are counted from the first whole tile of
// the shard. This tile begins at a multiple of 256 ids of the vocabulary, so the tiles are tiles of
// the whole row.
//
// Algorithm and cost. The kernel runs the pass of tile_pass.cuh with 1 to 16 blocks per row. The
// blocks share no data and need no barrier. For each tile of 1024 bytes, 14 bytes are written, and
// 32 bytes more for the keys of groups. Bit 0 of `allowed` belongs to the shard's first column. If
// the first whole tile does not begin at a word of these bits, another kernel shifts the bits
// first.
//
// Randomness: none. Numerics: the weights are defined in common/tile_weights.h. Determinism: all
// values are integers, and each is written to a place of its own.
#include "common/parameters.h"
#include "cuda/device/early_start.h"
#include "cuda/device/row_launch.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/group_keys.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {
namespace {

/// Returns the number of values of a tile that are above -inf (above 0 for probabilities), on all
/// lanes. In most tiles of logits, all values are above -inf.
template <bool kFromProbs>
__device__ __forceinline__ std::uint32_t allowed_of(const float (&x)[kLaneValues]) {
  constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;
  float least = x[0];
#pragma unroll
  for (const float value : x) least = fminf(least, value);
  if (__any_sync(kAllLanes, !(least > kEmpty)) == 0) return kTileSize;
  std::uint32_t count = 0;
#pragma unroll
  for (const float value : x) count += value > kEmpty ? 1U : 0U;
  return __reduce_add_sync(kAllLanes, count);
}

template <DType kType, TileAccess kAccess, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    index_shard_kernel(const __grid_constant__ ShardedTask task, int blocks_log2) {
  constexpr RowForm kForm{kType, kAccess};
  extern __shared__ __align__(16) unsigned char dynamic[];
  let_next_kernel_start();
  // At the beginning of a call, no row is undecided.
  if (blockIdx.x == 0 && threadIdx.x == 0) *task.undecided = 0;
  const std::int64_t number = blockIdx.x >> static_cast<unsigned>(blocks_log2);
  if (task.active.given() && task.active.data[number] == 0) return;
  const RowOfTiles<kForm> row(task.whole, task.whole_allowed, number, kFromProbs);
  const RowBlocks blocks(blocks_log2, row.tiles(), dynamic);  // the memory for an index in this
                                                              // object is not used
  const RowCluster alone{1, 0};  // a cluster of one block, because the keys of groups are written
                                 // to global memory
  const GroupKeys groups(task.groups + number * GroupKeys::bytes(row.tiles()), row.tiles());
  const std::int64_t first = number * task.keys.row_stride;  // position of the row's first key,
                                                             // first sum and first count
  TileWeighing rule{1.0F, true};
  visit_tiles(
      row, TileRing<kForm>(dynamic), blocks.steps(),
      [&] {
        const float temperature = task.temperature.at(number);
        const bool scales = check(RowParameters{temperature}) == RowStatus::ok && temperature > 0;
        rule.scale = logit_scale(scales ? temperature : 1.0F);
      },
      [&](int tile, const RawTile& raw) {
        using Pass = TilePass<kForm, kFromProbs>;
        float x[kLaneValues];
        const std::int32_t key = Pass::largest(row, raw, x);
        const std::uint64_t sum = Pass::sum(x, key, rule);
        if (task.groups != nullptr) groups.template send<kForm, kFromProbs>(alone, tile, x);
        const std::uint32_t count = allowed_of<kFromProbs>(x);
        if (threadIdx.x % kWarp != 0) return;
        task.keys.data[first + tile] = key;
        task.sums.data[first + tile] = sum;
        task.counts.data[first + tile] = static_cast<std::uint16_t>(count);
      });
}

template <RowForm kForm, bool kFromProbs>
cudaError_t launch(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[](int threads) { return TileRing<kForm>::kLaneBytes * threads; }, false};
  return launch_spread<index_shard_kernel<kForm.type, kForm.access, kFromProbs>>(
      task.rows(), spread, needs, stream, task);
}

/// Shifts the bits of a row's columns so that they begin at the first whole tile, with one block
/// per row.
__global__ void shift_bits_kernel(const __grid_constant__ ShardedTask task) {
  const int head = task.parts[task.shard].head();
  const int words = (task.parts[task.shard].whole() + 31) / 32;
  const int given = (task.parts[task.shard].end - task.parts[task.shard].begin + 31) / 32;
  for (std::int64_t row = blockIdx.x; row < task.columns.rows; row += gridDim.x) {
    if (task.active.given() && task.active.data[row] == 0) continue;
    const std::uint32_t* from = task.allowed.data + row * task.allowed.row_stride;
    std::uint32_t* to = task.shifted.data + row * task.shifted.row_stride;
    for (int word = static_cast<int>(threadIdx.x); word < words;
         word += static_cast<int>(blockDim.x)) {
      const int first = word + head / 32;
      const std::uint64_t low = from[first];
      const std::uint64_t high = first + 1 < given ? from[first + 1] : 0;
      to[word] = static_cast<std::uint32_t>((low | (high << 32)) >> (head % 32));
    }
  }
}

}  // namespace

std::int64_t group_bytes(std::int64_t tiles) { return GroupKeys::bytes(tiles); }

cudaError_t index_shard(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream) {
  if (task.shifted.given()) {
    const cudaError_t error = launch_blocks(shift_bits_kernel, task.rows(), 256, stream, task);
    if (error != cudaSuccess) return error;
  }
  return launch_for_form(task.whole, [&]<RowForm kForm>() {
    return task.from_probs ? launch<kForm, true>(task, spread, stream)
                           : launch<kForm, false>(task, spread, stream);
  });
}

}  // namespace fairdraw::cuda
