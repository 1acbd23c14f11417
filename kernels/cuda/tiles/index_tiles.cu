// The index of rows as a result: keys and sums of their tiles, and statuses.
//
// Contract. That of tile_index (fairdraw/tile_index.h): the tiles of a row that fails are all
// empty, an inactive row is left untouched.
//
// Algorithm and cost. The pass of tile_pass.cuh by 1 to 16 blocks a row; each warp writes the
// entries of its tiles, 12 bytes for each 256 values, and tells the row's blocks its largest key.
// When they have met, each knows whether the row has failed, and then empties its own tiles.
//
// Measured on an H200, V = 128256, graph replay after a memset of 256 MB, median of 25,
// microseconds, 512 threads:
//   rows (blocks of each)            1 (16)  8 (8)  64 (2)  256 (1)
//   float32                            6.6    8.4    18.3    52.3
//     without code for masks           6.4    8.4    18.4    51.7
//     through registers, not the ring  6.9    9.2    21.0    47.5
//     with masks                       7.2    9.0    19.1    55.7
//     at an odd address and stride     7.3    9.6    24.5    54.2
//   bfloat16                           7.2    8.0    15.5    41.2
//     without code for masks           6.8    7.7    14.8    39.9
//     through registers                6.9    8.5    18.3    42.3
//     with masks                       7.2    8.5    17.1    50.7
//     at an odd address and stride     7.5    9.1    21.6    52.4
// At 256 rows of float32 it takes 246 instructions a tile, and schedulers issue one in 83 % of
// cycles: instructions limit it, not memory.
//
// Randomness: none. Numerics: common/tile_weights.h. Determinism: integers, each in its place.
#include "common/parameters.h"
#include "cuda/tiles/index_tiles.h"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_launch.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {
namespace {

/// One block's part of a row.
template <DType kType, bool kFromProbs>
class RowIndexer {
 public:
  __device__ RowIndexer(const TileIndexRequest& request, const TileIndexResult& result,
                        int blocks_log2, LargestOfWarps& largest, unsigned char* dynamic)
      : request_(request),
        result_(result),
        number_(blockIdx.x >> static_cast<unsigned>(blocks_log2)),
        row_(request.rows, request.allowed, number_, kFromProbs),
        ring_(dynamic),
        blocks_(blocks_log2, row_.tiles(), nullptr),
        largest_(largest),
        keys_(result.keys.data + number_ * result.keys.row_stride),
        sums_(result.sums.data + number_ * result.sums.row_stride) {}

  __device__ void run() {
    if (request_.active.given() && request_.active.data[number_] == 0) {
      write_status(RowStatus::inactive);
      return;
    }
    blocks_.cluster().announce();
    index();
    blocks_.cluster().arrive();
    blocks_.cluster().wait();
    RowStatus status = parameters_;
    if (status == RowStatus::ok) status = status_of_key(blocks_.largest_of(largest_).key);
    if (status != RowStatus::ok) empty_tiles();
    write_status(status);
  }

 private:
  __device__ __forceinline__ void index() {
    TileRule rule{1.0F, true};
    LargestTile largest;
    visit_tiles(
        row_, ring_, blocks_.steps(),
        [&] {
          if constexpr (!kFromProbs) {
            const float temperature = request_.temperature.at(number_);
            parameters_ = check(RowParameters{temperature});
            rule.scale = logit_scale(temperature == 0.0F ? 1.0F : temperature);
          }
          blocks_.cluster().await_all();
        },
        [&]<TileAccess kAccess>(int tile, const RawTile& raw) {
          float x[kLaneValues];
          using Pass = TilePass<kType, kFromProbs>;
          const std::int32_t key = Pass::template largest<kAccess>(row_, raw, x);
          const std::uint64_t sum = Pass::sum(x, key, rule);
          if (threadIdx.x % kWarp == 0) {
            keys_[tile] = key;
            sums_[tile] = sum;
          }
          if (key > largest.key) largest = {key, tile};
        });
    blocks_.send_largest(largest, true, largest_);
  }

  /// This warp's: what it wrote before is overwritten by the lane that wrote it.
  __device__ void empty_tiles() const {
    const TileSteps steps = blocks_.steps();  // by all lanes
    if (threadIdx.x % kWarp != 0) return;
    for (int tile = steps.first; tile < steps.end; tile += steps.step) {
      keys_[tile] = kEmptyTileKey;
      sums_[tile] = 0;
    }
  }

  __device__ void write_status(RowStatus status) const {
    if (!blocks_.is_first() || threadIdx.x != 0 || !result_.statuses.given()) return;
    result_.statuses.data[number_] = status;
  }

  const TileIndexRequest& request_;
  const TileIndexResult& result_;
  std::int64_t number_;
  TileRow<kType> row_;
  TileRing<kType> ring_;
  RowBlocks blocks_;
  LargestOfWarps& largest_;
  std::int32_t* keys_;
  std::uint64_t* sums_;
  RowStatus parameters_ = RowStatus::ok;
};

template <DType kType, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    index_tiles_kernel(const __grid_constant__ TileIndexRequest request,
                       const __grid_constant__ TileIndexResult result, int blocks_log2) {
  __shared__ LargestOfWarps largest;
  extern __shared__ __align__(16) unsigned char dynamic[];
  RowIndexer<kType, kFromProbs>(request, result, blocks_log2, largest, dynamic).run();
}

template <DType kType>
cudaError_t launch(const TileIndexRequest& request, const TileIndexResult& result,
                   const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[](int threads) { return TileRing<kType>::kLaneBytes * threads; }, false};
  if (request.input == TileInput::probs) {
    return launch_spread<index_tiles_kernel<kType, true>>(request.rows.rows, spread, needs, stream,
                                                          request, result);
  }
  return launch_spread<index_tiles_kernel<kType, false>>(request.rows.rows, spread, needs, stream,
                                                         request, result);
}

}  // namespace

cudaError_t index_tiles(const TileIndexRequest& request, const TileIndexResult& result,
                        const TileSpread& spread, cudaStream_t stream) {
  switch (request.rows.dtype) {
    case DType::float16:
      return launch<DType::float16>(request, result, spread, stream);
    case DType::bfloat16:
      return launch<DType::bfloat16>(request, result, spread, stream);
    case DType::float32:
      break;
  }
  return launch<DType::float32>(request, result, spread, stream);
}

}  // namespace fairdraw::cuda
