// Gives each marked row the token of its tournament (fairdraw/watermark.h).
//
// Contract. The kernel runs after the row kernel, whose tokens stay in rows that are not marked,
// and after find_marks. A row whose output is wrong fails, unless it has failed already.
//
// Algorithm and cost. The blocks of a row share its tiles; each warp has tiles with adjacent ids.
// It lists the survivors in them by ascending id, with their weights and words, in the workspace.
// If a row has few survivors, one warp plays with all of them in registers. Otherwise a layer is
// one pass over the lists, in which a warp reads what its own lanes have written: it changes the
// weights by the layer before, and adds up those of its own layer. All warps exchange their sums
// through shared memory, at one barrier per layer, and each computes the share of the layer from
// them. After the last layer, the warp whose survivors have the place of the draw finds the token.
//
// A call takes these microseconds on an H200, with 30 layers, beside those of `sample` (V = 128256,
// float32, peaked logits, 512 ids per output, cold L2 cache).
//   rows                 1                64
//   top_k 50             46 / 17          55 / 29
//   min_p 0.05           41 / 12          49 / 23
//   top_p 0.9            96 / 21         306 / 40
//   no filter           185 / 11        2222 / 21
// 64 rows without a filter read and write 24 bytes per token in each layer. With up to 16 survivors
// per lane in registers, and 8 loads at once for the others, calls without a filter took 177 and
// 2051, but those with top_k 63 and 68, and those with top_p 114 and 327.
//
// Numerics: integers, and one quotient of doubles per layer. Determinism: sums of integers do not
// depend on the order of their terms, nor on the number of warps.
#include <cstdint>

#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/outputs/kept_rule.cuh"
#include "cuda/outputs/mark_rows.h"
#include "cuda/outputs/row_marks.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/row_weigher.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kMostWarps = kMaxBlocksOfRow * kMaxThreadsOfBlock / kWarp;  ///< of a row
constexpr int kFewOfLane = 8;
constexpr int kFew = kFewOfLane * kWarp;  ///< survivors that one warp plays with
constexpr int kAtOnce = 4;  ///< survivors that a lane loads at once, of which each waits for memory

/// Sums of the weights of some survivors.
struct WeightSums {
  std::uint64_t all, ones;  ///< of all, and of those with a value of 1 in the next layer
};

__device__ WeightSums sum_of_warp(const WeightSums& sums) {
  return {static_cast<std::uint64_t>(wide_sum_of_warp(sums.all)),
          static_cast<std::uint64_t>(wide_sum_of_warp(sums.ones))};
}

/// Shared memory of a block.
struct PlayMemory {
  /// For each warp of the row, in each block: two sets, of which one may be written while the other
  /// is read.
  WeightSums sums[2][kMostWarps];
  /// The survivors of a row with few of them, in the first block.
  std::uint64_t weights[kFew], words[kFew];
  std::int32_t tokens[kFew];
};

/// Sums that the warps of a row have together, and those before this warp.
struct Total {
  WeightSums sums;
  std::uint64_t before;
};

/// Changes a weight by a layer, and adds it to the sums for the next layer.
__device__ __forceinline__ void play_one(std::uint64_t& weight, std::uint64_t word, int layer,
                                         std::uint64_t share, WeightSums& sums) {
  weight = weight_after_layer(weight, is_one_in_layer(word, layer), share);
  sums.all += weight;
  if (layer < 64) sums.ones += is_one_in_layer(word, layer + 1) ? weight : 0;
}

/// Returns whether the lane's survivor is drawn: the first for which the sum of the weights up to
/// it exceeds `place`. Lane i has survivor i of 32. `before` is the sum of all weights before
/// theirs, and becomes the sum up to theirs. Sets `is_found` on all lanes.
__device__ __forceinline__ bool draws(std::uint64_t weight, std::uint64_t place,
                                      std::uint64_t& before, bool& is_found) {
  const std::uint64_t upto = before + warp_inclusive_sum(weight);
  const unsigned above = __ballot_sync(kAllLanes, upto > place);
  is_found = above != 0;
  before = cuda::value_of_lane(upto, kWarp - 1);
  return is_found && lane_of_thread() == __ffs(static_cast<int>(above)) - 1;
}

/// Part of a row that a warp has.
class WarpOfRow {
 public:
  __device__ WarpOfRow(const PlayRowsTask& task, const RowCluster& cluster, std::int64_t place,
                       PlayMemory& shared)
      : task_(task),
        cluster_(cluster),
        shared_(shared),
        warp_(cluster.rank * warps_of_block() + warp_of_thread()),
        warps_(cluster.blocks * warps_of_block()),
        tiles_(static_cast<int>(task.tokens_of_row / kTileSize)),
        first_tile_(tiles_ * warp_ / warps_) {
    const std::int64_t begin = place * task.tokens_of_row + std::int64_t{first_tile_} * kTileSize;
    weights_ = task.weights + begin;
    words_ = task.words + begin;
    tokens_ = task.tokens + begin;
  }

  /// Plays the tournament of a row whose status is ok and that is not greedy.
  __device__ void play(std::int64_t row, std::uint64_t context_key) {
    list(row, context_key);
    const Total survivors = exchange({static_cast<std::uint64_t>(count_), 0});
    if (survivors.sums.all <= kFew) {
      gather(static_cast<int>(survivors.before));
      cluster_.sync();
      if (warp_ == 0) play_few(row, static_cast<int>(survivors.sums.all));
      return;
    }
    WeightSums mine = add_up();
#pragma unroll 1
    for (int layer = 1; layer <= layers(); ++layer) {
      const WeightSums all = exchange(mine).sums;
      mine = pass(layer, share_of_zeros(all.all, all.ones));
    }
    const Total total = exchange(mine);
    const std::uint64_t place = multiply_high(word_of(row), total.sums.all);
    if (place >= total.before && place - total.before < mine.all) {
      draw(row, place, total.before);
    }
  }

 private:
  /// Lists the warp's survivors with their words and first weights. Each lane computes those of the
  /// entries that it has in all layers, so that words are computed on all lanes.
  __device__ void list(std::int64_t row, std::uint64_t context_key) {
    const FilteredRows& filtered = task_.rows.filtered;
    const RowRecord& record = filtered.records[row];
    const FilteredRow values = FilteredRow::of(filtered, row);
    const KeptRule kept = KeptRule::of(record, /*from_probs=*/false);
    const std::int32_t* const keys = task_.rows.keys.data + row * task_.rows.keys.row_stride;
    const int end = tiles_ * (warp_ + 1) / warps_;
    count_ = 0;
#pragma unroll 1
    for (int first = first_tile_; first < end; first += kWarp) {
      const int of_lane = first + lane_of_thread();
      const std::int32_t key_of_lane = of_lane < end ? keys[of_lane] : kEmptyTileKey;
      const bool wanted = key_of_lane > kEmptyTileKey && kept.reaches(of_lane, key_of_lane);
      unsigned left = __ballot_sync(kAllLanes, wanted);
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int lane = __ffs(static_cast<int>(left)) - 1;
        float x[kLaneValues];
        values.read_in_order(first + lane, x);
        const int id = (first + lane) * kTileSize + lane_of_thread() * kLaneValues;
        int survivors = 0;
#pragma unroll
        for (int i = 0; i < kLaneValues; ++i) survivors += kept.keeps(x[i], id + i) ? 1 : 0;
        const int upto = warp_inclusive_sum(survivors);
        int place = count_ + upto - survivors;
#pragma unroll
        for (int i = 0; i < kLaneValues; ++i) {
          if (!kept.keeps(x[i], id + i)) continue;
          tokens_[place] = id + i;
          weights_[place] = __float_as_uint(x[i]);
          ++place;
        }
        count_ += cuda::value_of_lane(upto, kWarp - 1);
      }
    }
    __syncwarp();  // other lanes read what this lane has written
    const RowWeigher<false> weigher({logit_scale(filtered.temperature.at(row)), true},
                                    order_key(record.max));
    const int shift = tournament_shift(record.weight());
#pragma unroll 1
    for (int i = lane_of_thread(); i < count_; i += kWarp) {
      const std::int32_t token = tokens_[i];
      const float x = __uint_as_float(static_cast<unsigned>(weights_[i]));
      const uint128_t weight = weigher(x, keys[token / kTileSize]);
      weights_[i] = static_cast<std::uint64_t>(weight >> shift);
      words_[i] = keyed_word(context_key, token);
    }
  }

  /// Copies the warp's survivors to the first block, to the place `first` and those after it.
  __device__ void gather(int first) {
    for (int i = lane_of_thread(); i < count_; i += kWarp) {
      *cluster_.at(&shared_.weights[first + i], 0) = weights_[i];
      *cluster_.at(&shared_.words[first + i], 0) = words_[i];
      *cluster_.at(&shared_.tokens[first + i], 0) = tokens_[i];
    }
  }

  /// Plays the tournament of `count` survivors that gather() has copied, and writes the row's
  /// token.
  __device__ void play_few(std::int64_t row, int count) {
    std::uint64_t weights[kFewOfLane];
    std::uint64_t words[kFewOfLane];
    WeightSums sums{};
#pragma unroll
    for (int i = 0; i < kFewOfLane; ++i) {
      const int place = i * kWarp + lane_of_thread();
      weights[i] = place < count ? shared_.weights[place] : 0;
      words[i] = place < count ? shared_.words[place] : 0;
      sums.all += weights[i];
      sums.ones += is_one_in_layer(words[i], 1) ? weights[i] : 0;
    }
    sums = sum_of_warp(sums);
#pragma unroll 1
    for (int layer = 1; layer <= layers(); ++layer) {
      const std::uint64_t share = share_of_zeros(sums.all, sums.ones);
      sums = {};
#pragma unroll
      for (int i = 0; i < kFewOfLane; ++i) {
        if (i * kWarp < count) play_one(weights[i], words[i], layer, share, sums);
      }
      sums = sum_of_warp(sums);
    }
    const std::uint64_t place = multiply_high(word_of(row), sums.all);
    std::uint64_t before = 0;
    bool is_found = false;
#pragma unroll
    for (int i = 0; i < kFewOfLane; ++i) {
      if (is_found) continue;
      if (draws(weights[i], place, before, is_found)) {
        task_.rows.tokens[row] = shared_.tokens[i * kWarp + lane_of_thread()];
      }
    }
  }

  /// Returns the sums of the warp's first weights, for the first layer.
  __device__ WeightSums add_up() const {
    WeightSums sums{};
    for (int i = lane_of_thread(); i < count_; i += kWarp) {
      sums.all += weights_[i];
      sums.ones += is_one_in_layer(words_[i], 1) ? weights_[i] : 0;
    }
    return sum_of_warp(sums);
  }

  /// Changes the warp's weights by a layer, and returns their sums for the next layer.
  __device__ WeightSums pass(int layer, std::uint64_t share) {
    WeightSums sums{};
#pragma unroll 1
    for (int first = lane_of_thread(); first < count_; first += kAtOnce * kWarp) {
      std::uint64_t weights[kAtOnce];
      std::uint64_t words[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int place = first + i * kWarp;
        weights[i] = place < count_ ? weights_[place] : 0;
        words[i] = place < count_ ? words_[place] : 0;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        play_one(weights[i], words[i], layer, share, sums);
        if (first + i * kWarp < count_) weights_[first + i * kWarp] = weights[i];
      }
    }
    return sum_of_warp(sums);
  }

  /// Adds up the sums of all warps of the row.
  __device__ Total exchange(const WeightSums& mine) {
    WeightSums* const sums = shared_.sums[turn_];
    turn_ ^= 1;
    for (int block = lane_of_thread(); block < cluster_.blocks; block += kWarp) {
      *cluster_.at(&sums[warp_], block) = mine;
    }
    cluster_.sync();
    WeightSums all{};
    std::uint64_t before = 0;
    for (int i = lane_of_thread(); i < warps_; i += kWarp) {
      all.all += sums[i].all;
      all.ones += sums[i].ones;
      before += i < warp_ ? sums[i].all : 0;
    }
    return {sum_of_warp(all), static_cast<std::uint64_t>(wide_sum_of_warp(before))};
  }

  /// Writes the row's token, which is among the warp's survivors.
  __device__ void draw(std::int64_t row, std::uint64_t place, std::uint64_t before) {
    bool is_found = false;
#pragma unroll 1
    for (int first = 0; first < count_ && !is_found; first += kWarp) {
      const int i = first + lane_of_thread();
      if (draws(i < count_ ? weights_[i] : 0, place, before, is_found)) {
        task_.rows.tokens[row] = tokens_[i];
      }
    }
  }

  __device__ int layers() const { return task_.rows.watermark.rule.layers; }

  /// Returns the random word of the row's draw.
  __device__ std::uint64_t word_of(std::int64_t row) const {
    const MarkRowsTask& task = task_.rows;
    const DrawWords words{task.seed.at(row), task.offset.at(row), task.purpose,
                          task.seed.is_array() ? 0 : static_cast<std::uint32_t>(row)};
    return words.of_survivors();
  }

  const PlayRowsTask& task_;
  RowCluster cluster_;
  PlayMemory& shared_;
  int warp_, warps_, tiles_;
  int first_tile_;
  int count_ = 0;  ///< survivors in the warp's tiles
  int turn_ = 0;   ///< set of sums that is written next
  std::uint64_t* weights_;
  std::uint64_t* words_;
  std::int32_t* tokens_;
};

__global__ void __launch_bounds__(kMaxThreadsOfBlock)
    play_rows_kernel(const __grid_constant__ PlayRowsTask task, int blocks_log2) {
  __shared__ PlayMemory shared;
  const RowCluster cluster = RowCluster::of_grid(blocks_log2);
  const std::int64_t place = blockIdx.x >> static_cast<unsigned>(blocks_log2);
  const std::int64_t places = gridDim.x >> static_cast<unsigned>(blocks_log2);
  WarpOfRow warp(task, cluster, place, shared);
  cluster.sync();  // other blocks may write to this block's memory from now on
#pragma unroll 1
  for (std::int64_t row = place; row < task.rows.filtered.rows.rows; row += places) {
    const RowRecord& record = task.rows.records[row];
    const RowMark mark = task.rows.marks[row];
    if (fails(mark, record.status)) {
      if (cluster.rank == 0 && threadIdx.x == 0) fail(task.rows, row);
      continue;
    }
    if (mark.fate != MarkFate::marked || record.status != RowStatus::ok) continue;
    if (record.greedy_token < 0) warp.play(row, mark.context_key);
  }
  cluster.sync();  // no block ends while others write to its memory
}

}  // namespace

cudaError_t play_rows(const PlayRowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  const std::int64_t rows = task.rows.filtered.rows.rows;
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/false};
  return launch_spread<play_rows_kernel>(rows < kRowsOfPlay ? rows : kRowsOfPlay, spread, needs,
                                         stream, task);
}

}  // namespace fairdraw::cuda
