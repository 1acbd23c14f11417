// Writes the index of rows as the result of a call: the keys and sums of the rows' tiles, and the
// rows' statuses.
//
// The contract is that of tile_index (fairdraw/tile_index.h). If a row fails, all of its tiles are
// written as empty; an inactive row is left unchanged.
//
// Algorithm and cost. Each row has 1 to 16 blocks, which run the pass of tile_pass.cuh. Each warp
// writes the entries of its tiles, 12 bytes per 256 values, and sends the largest key of its tiles
// to the row's blocks. After a barrier of the row's blocks, each block knows whether the row has
// failed; if the row has failed, each block overwrites the entries of its own tiles as empty.
//
// The table has microseconds on an H200: V = 128256, cold L2 cache, graph replays in turns with
// other kernels, median of 30, 512 threads.
//   rows (blocks of each)            1 (16)  8 (8)  64 (2)  256 (1)
//   float32                            7.9    9.3    19.2    51.4
//     floor, one read                  5.6    7.2    15.7    41.3
//     with masks                       8.1    9.7    20.0    54.6
//     at an odd address and stride     8.3   10.2    24.7    53.6
//   bfloat16                           8.1    8.4    15.0    39.2
//     floor, one read                  5.6    6.1    10.6    24.8
//     with masks                       8.1    8.8    16.7    47.6
//     at an odd address and stride     8.2    9.5    21.1    50.2
// A tile of float32 takes about 200 instructions, of which 106 are for weights. A version that was
// tried took 246 instructions, with an address computed in parts and a bounds check of every
// vector: 53.2 microseconds at 256 rows, 41.7 in bfloat16. A version with the values in registers
// instead of the ring took a tenth less time at 256 rows, but a tenth to a sixth more at 8 and 64
// rows.
//
// Randomness: none. Numerics: the weights are defined in common/tile_weights.h. Determinism: all
// values are integers, and each is written to a place of its own.
#include "common/parameters.h"
#include "cuda/outputs/index_tiles.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {
namespace {

/// Part of a row that one block indexes.
template <RowForm kForm, bool kFromProbs>
class RowIndexer {
 public:
  __device__ RowIndexer(const TileIndexRequest& request, const TileIndexResult& result,
                        int blocks_log2, std::int32_t& largest, unsigned char* dynamic)
      : request_(request),
        result_(result),
        number_(blockIdx.x >> static_cast<unsigned>(blocks_log2)),
        row_(request.rows, request.allowed, number_, kFromProbs),
        ring_(dynamic),
        blocks_(blocks_log2, row_.tiles(), dynamic),  // the memory for an index in this object is
                                                      // not used
        largest_(largest),
        keys_(result.keys.data + number_ * result.keys.row_stride),
        sums_(result.sums.data + number_ * result.sums.row_stride) {}

  __device__ void run() {
    if (request_.active.given() && request_.active.data[number_] == 0) {
      write_status(RowStatus::inactive);
      return;
    }
    blocks_.clear_largest(largest_);
    blocks_.cluster().announce();
    index();
    blocks_.cluster().arrive();
    blocks_.cluster().wait();
    RowStatus status = parameters_;
    if (status == RowStatus::ok) status = status_of_key(largest_);
    if (status != RowStatus::ok) empty_tiles();
    write_status(status);
  }

 private:
  __device__ __forceinline__ void index() {
    TileWeighing rule{1.0F, true};
    std::int32_t largest = INT_MIN;
    visit_tiles(
        row_, ring_, blocks_.steps(),
        [&] {
          if constexpr (!kFromProbs) {
            const float temperature = request_.temperature.at(number_);
            parameters_ = check(RowParameters{temperature});
            rule.scale = logit_scale(temperature == 0.0F ? 1.0F : temperature);
          }
          if (blocks_.cluster().blocks == 1) sync_block();  // wait until the word is cleared
          blocks_.cluster().await_all();
        },
        [&](int tile, const RawTile& raw) {
          float x[kLaneValues];
          using Pass = TilePass<kForm, kFromProbs>;
          const std::int32_t key = Pass::largest(row_, raw, x);
          const std::uint64_t sum = Pass::sum(x, key, rule);
          if (threadIdx.x % kWarp == 0) {
            keys_[tile] = key;
            sums_[tile] = sum;
          }
          largest = max(largest, key);
        });
    blocks_.raise_largest(largest, true, largest_);
  }

  /// Overwrites the entries of this warp's tiles as empty. The lane that wrote an entry also
  /// overwrites the entry.
  __device__ void empty_tiles() const {
    const TileSteps steps = blocks_.steps();  // all lanes of the warp must call steps()
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
  RowOfTiles<kForm> row_;
  TileRing<kForm> ring_;
  RowBlocks blocks_;
  std::int32_t& largest_;
  std::int32_t* keys_;
  std::uint64_t* sums_;
  RowStatus parameters_ = RowStatus::ok;
};

template <DType kType, TileAccess kAccess, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    index_tiles_kernel(const __grid_constant__ TileIndexRequest request,
                       const __grid_constant__ TileIndexResult result, int blocks_log2) {
  __shared__ std::int32_t largest;
  extern __shared__ __align__(16) unsigned char dynamic[];
  RowIndexer<RowForm{kType, kAccess}, kFromProbs>(request, result, blocks_log2, largest, dynamic)
      .run();
}

template <RowForm kForm>
cudaError_t launch(const TileIndexRequest& request, const TileIndexResult& result,
                   const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[](int threads) { return TileRing<kForm>::kLaneBytes * threads; }, false};
  if (request.input == TileInput::probs) {
    return launch_spread<index_tiles_kernel<kForm.type, kForm.access, true>>(
        request.rows.rows, spread, needs, stream, request, result);
  }
  return launch_spread<index_tiles_kernel<kForm.type, kForm.access, false>>(
      request.rows.rows, spread, needs, stream, request, result);
}

}  // namespace

cudaError_t index_tiles(const TileIndexRequest& request, const TileIndexResult& result,
                        const TileSpread& spread, cudaStream_t stream) {
  return launch_for_form(request.rows, [&]<RowForm kForm>() {
    return launch<kForm>(request, result, spread, stream);
  });
}

}  // namespace fairdraw::cuda
