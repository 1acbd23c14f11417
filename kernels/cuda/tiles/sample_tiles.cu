// Tokens by tiles: rows without top_k and top_p in one pass, and one tile of each read again.
//
// Contract. Rows of logits or probabilities as `sample` takes them (fairdraw/sample.h), with
// temperature, bits of allowed tokens and min_p, processed or not: for each a token, its status,
// and optionally a record of who survives. Greedy rows are those of temperature 0, or of top_k 1
// for all.
//
// Algorithm and cost. 1 to 16 blocks share a row. Their warps index its tiles (tile_pass.cuh) and
// send the entries to the first block (row_index.cuh), which draws (tile_draw.cuh). Rows with min_p
// take keys alone on the first pass, and tell all blocks the largest; then each warp reads those of
// its tiles again that reach the threshold, from L2, and sums what survives.
//
// Loads come first: parameters are fetched while the first tiles are on their way, so that arrays
// of parameters cost what scalars cost. Instructions come from a cold cache, too: what follows the
// pass is short.
//
// Measured on an H200, V = 128256, float32, cold L2, graph replay in turns with a dozen other
// kernels, median of 30, microseconds at B = 1, 8, 64 and 256 (the floor, one read: 5.5, 6.7, 15.3,
// 41.5), tokens without records:
//   no filter       17.2  17.1  25.2  54.6
//   greedy          10.7  10.7  19.3  46.6
//   min_p, peaked   15.0  14.1  25.3  55.5
//   min_p, flat     15.6  16.2  36.1  92.6   every tile is read twice; at B = 256 not from L2
// The same call again and again, with nothing but a fill of L2 between: 10.3, 12.0, 23.1 without a
// filter, 7.9 greedy at B = 1. The rest is instructions that come from memory. Of the 10.3 a clock
// in the kernel (1.9 GHz) sees 2.9 in the pass and 2.7 in the draw. What was tried, no filter, a
// call alone:
//   11.1  12.8  24.5  52   values in registers, 2 tiles in flight; at the end three barriers, and
//                          each warp's sum added one by one: the end took 4.7 us of the 11.1
//               28.4  59   the same with 40 registers a thread, for more warps: spills
//    9.9  11.3  20.1  47   blocks that count themselves in memory that happens to be 0, and an
//                          index in L2, no bans, rows aligned; a memset before it takes 0.7
//
// Randomness. One word a row (row_results.cuh).
//
// Numerics: common/tile_weights.h; min_p's threshold as common/min_p.h. Determinism: integers; the
// same tokens for every spread.
#include <climits>

#include "common/min_p.h"
#include "common/parameters.h"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/sample_tiles.h"
#include "cuda/tiles/tile_draw.cuh"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

struct Shared {
  LargestOfWarps largest;
  TileGroups groups;
};

/// What a row is asked for.
struct RowAsked {
  RowStatus status = RowStatus::ok;  ///< of the parameters
  bool greedy = false;
  float min_p = 0.0F;
  TileRule rule{1.0F, true};

  __device__ bool has_min_p() const { return min_p > 0.0F; }
};

__device__ RowAsked asked_of(const RowsTask& task, std::int64_t row) {
  RowParameters parameters;
  parameters.temperature = task.from_probs ? 1.0F : task.temperature.at(row);
  parameters.top_k = task.top_k.at(row);
  parameters.top_p = task.top_p.at(row);
  parameters.min_p = task.min_p.at(row);
  RowAsked asked;
  asked.status = check(parameters);
  if (asked.status != RowStatus::ok) return asked;
  asked.greedy = is_greedy(parameters);
  asked.min_p = asked.greedy ? 0.0F : parameters.min_p;
  asked.rule = {asked.greedy ? 1.0F : logit_scale(parameters.temperature),
                !asked.greedy && !asked.has_min_p()};
  return asked;
}

template <bool kFromProbs>
__device__ MinPRule min_p_rule(float min_p, float max, float scale) {
  if (min_p == 0.0F) return {};
  if constexpr (!kFromProbs) return {max, scale, min_p_octaves(min_p)};
  // The smallest float that is not below min_p * max: 24 by 24 bits are exact in double.
  const double exact = static_cast<double>(min_p) * static_cast<double>(max);
  const auto nearest = static_cast<float>(exact);
  return {0.0F, 1.0F, static_cast<double>(nearest) < exact ? next_above(nearest) : nearest};
}

/// One block's part of a row.
template <DType kType, bool kFromProbs>
class RowSampler {
 public:
  __device__ RowSampler(const RowsTask& task, int blocks_log2, Shared& shared,
                        unsigned char* dynamic)
      : task_(task),
        number_(blockIdx.x >> static_cast<unsigned>(blocks_log2)),
        row_(task.rows, task.allowed, number_, kFromProbs, task.edits),
        ring_(dynamic),
        blocks_(blocks_log2, row_.tiles(), dynamic + TileRing<kType>::kLaneBytes * blockDim.x),
        shared_(shared) {}

  __device__ void run() {
    if (task_.active.given() && task_.active.data[number_] == 0) {
      // Whatever comes after this kernel may write where edits are still being written.
      if (row_.is_processed()) await_edits();
      if (blocks_.is_first()) fail(RowStatus::inactive);
      return;
    }
    blocks_.cluster().announce();
    index();
    blocks_.cluster().arrive();
    if (!blocks_.is_first() && !asked_.has_min_p()) return;
    blocks_.cluster().wait();
    const LargestTile largest = blocks_.largest_of(shared_.largest);
    RowStatus status = asked_.status;
    if (status == RowStatus::ok) status = status_of_key(largest.key, task_.edits.fault_of(number_));
    if (status == RowStatus::ok && asked_.has_min_p()) {
      filter(largest.key);
      blocks_.cluster().arrive();
      if (blocks_.is_first()) blocks_.cluster().wait();
    }
    if (blocks_.is_first()) end(status, largest);
  }

 private:
  using Pass = TilePass<kType, kFromProbs>;

  __device__ __forceinline__ void index() {
    LargestTile largest;
    visit_tiles(
        row_, ring_, blocks_.steps(), [&] { prepare(); },
        [&]<TileAccess kAccess>(int tile, const RawTile& raw) {
          float x[kLaneValues];
          const std::int32_t key = Pass::template largest<kAccess>(row_, raw, x);
          if (asked_.rule.wants_sums) {
            blocks_.send(tile, {key, Pass::sum(x, key, asked_.rule)});
          } else if (asked_.has_min_p()) {
            blocks_.send_key(tile, key);
          }
          if (key > largest.key) largest = {key, tile};
        });
    blocks_.send_largest(largest, asked_.has_min_p(), shared_.largest);
  }

  /// While the first tiles are on their way.
  __device__ __forceinline__ void prepare() {
    asked_ = asked_of(task_, number_);
    if (blocks_.is_first() && warp_of_thread() == 0) word_ = random_word_of_row(task_, number_);
    blocks_.cluster().await_all();
  }

  /// Sums what min_p keeps of this block's tiles.
  __device__ __forceinline__ void filter(std::int32_t largest) {
    constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;
    min_p_ = min_p_rule<kFromProbs>(asked_.min_p, from_order_key(largest), asked_.rule.scale);
    const auto reaches = [&](int tile) {
      return min_p_.keeps(from_order_key(blocks_.kept_key(tile)));
    };
    const TileSteps steps = blocks_.steps();
    __syncwarp();  // the keys are lane 0's
    for (int tile = steps.first; tile < steps.end; tile += steps.step) {
      if (!reaches(tile)) blocks_.send_sum(tile, 0);
    }
    revisit_tiles(row_, ring_, steps, reaches,
                  [&]<TileAccess kAccess>(int tile, const RawTile& raw) {
                    float x[kLaneValues];
                    Pass::template read<kAccess>(row_, raw, x);
#pragma unroll
                    for (float& value : x) value = min_p_.keeps(value) ? value : kEmpty;
                    blocks_.send_sum(tile, Pass::sum(x, blocks_.kept_key(tile), asked_.rule));
                  });
  }

  /// By the row's first block, when it has the index.
  __device__ __forceinline__ void end(RowStatus status, const LargestTile& largest) {
    if (status != RowStatus::ok) {
      fail(status);
      return;
    }
    const IndexedRow<TileRow<kType>, kFromProbs, MinPRule> row(row_, blocks_.index(), asked_.rule,
                                                               min_p_, largest.key);
    if (asked_.greedy) {
      const std::int32_t token = row.first_largest(largest);
      if (threadIdx.x == 0) write_greedy(task_, number_, token, largest.key);
      return;
    }
    row.sum_groups(shared_.groups, warps_of_block());
    __syncthreads();
    if (warp_of_thread() != 0) return;
    const DrawnToken drawn = row.draw(shared_.groups, word_);
    if (threadIdx.x != 0) return;
    RowCut cut{kFromProbs ? 1 : kEmptyTileKey + 1, row_.vocab()};
    if (asked_.has_min_p() && task_.records != nullptr) {
      cut.low =
          smallest_key_kept<kFromProbs>(asked_.min_p, asked_.rule.scale, cut.low, largest.key);
    }
    write_drawn(task_, number_, drawn.token, largest.key, cut, drawn.total);
  }

  __device__ void fail(RowStatus status) const {
    if (threadIdx.x == 0) write_failure(task_, number_, status);
  }

  const RowsTask& task_;
  std::int64_t number_;
  TileRow<kType> row_;
  TileRing<kType> ring_;
  RowBlocks blocks_;
  Shared& shared_;
  RowAsked asked_;
  MinPRule min_p_;
  std::uint64_t word_ = 0;
};

template <DType kType, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    sample_tiles_kernel(const __grid_constant__ RowsTask task, int blocks_log2) {
  __shared__ Shared shared;
  extern __shared__ __align__(16) unsigned char dynamic[];
  RowSampler<kType, kFromProbs>(task, blocks_log2, shared, dynamic).run();
}

template <DType kType, bool kFromProbs>
cudaError_t launch(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[tiles = tiles_of(task.rows.vocab)](int threads) {
                            return TileRing<kType>::kLaneBytes * threads + index_bytes(tiles);
                          },
                          task.edits.given()};
  return launch_spread<sample_tiles_kernel<kType, kFromProbs>>(task.rows.rows, spread, needs,
                                                               stream, task);
}

template <bool kFromProbs>
cudaError_t launch_for_dtype(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  switch (task.rows.dtype) {
    case DType::float16:
      return launch<DType::float16, kFromProbs>(task, spread, stream);
    case DType::bfloat16:
      return launch<DType::bfloat16, kFromProbs>(task, spread, stream);
    case DType::float32:
      break;
  }
  return launch<DType::float32, kFromProbs>(task, spread, stream);
}

}  // namespace

bool sample_tiles_takes(const RowsTask& task) {
  if (task.top_k.is_array() || task.top_p.is_array() || task.top_k_1_keeps_ties) return false;
  if (task.keys.given()) return false;
  const std::int32_t top_k = task.top_k.at(0);
  return (top_k == 1 || !top_k_is_on(top_k, task.rows.vocab)) && task.top_p.at(0) == 1.0F;
}

cudaError_t sample_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  return task.from_probs ? launch_for_dtype<true>(task, spread, stream)
                         : launch_for_dtype<false>(task, spread, stream);
}

}  // namespace fairdraw::cuda
