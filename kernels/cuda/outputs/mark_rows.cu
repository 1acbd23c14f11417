// Gives each marked row the token that wins the race of its survivors (fairdraw/watermark.h).
//
// Contract. The kernel runs after the row kernel, whose tokens stay in rows that are not marked: a
// row without a key, a row whose context is repeated, a greedy row. A row whose output is not in
// its buffer fails, and so does a marked row whose output has an id that is no token, unless the
// row has failed already.
//
// Algorithm and cost. The mark of a row depends only on arrays of the call, so it is found while
// the row kernel still runs (device/early_start.h): the block's threads share the ids of the
// output, and each thread computes the context's key, in `window` + 1 blocks of Threefry. Then the
// row's blocks share its tiles. Tiles whose largest value does not reach the row's threshold are
// not read. A warp takes a tile, and a lane 8 of its values, one after the other. A survivor takes
// one block of Threefry and its weight. Most survivors lose by a product against the least upper
// bound of the block so far; the bounds of the others are computed. The warp lists those that the
// bounds leave in the race, and compares each with its best contender: by bounds, and only if these
// overlap by the integers, which take 64 squares of 128 bits. Each warp sends its best contender to
// the first block of the row, where a warp lets them race in the same way.
//
// Determinism. Bounds are never wrong (serving/rules/watermark_rules.h), so that they decide how
// long a race takes, but not who wins: the survivor with the least time, and the lowest id among
// equals.
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/proposals.h"
#include "cuda/device/early_start.h"
#include "cuda/device/row_cluster.cuh"
#include "cuda/outputs/kept_rule.cuh"
#include "cuda/outputs/mark_rows.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_pass.cuh"
#include "serving/rules/watermark_rules.h"

namespace fairdraw::cuda {
namespace {

/// A survivor in the race. Its token is -1 if there is none.
struct Contender {
  uint128_t weight;
  std::uint64_t word;
  ArrivalBounds bounds;
  std::int32_t token;
};

__device__ Contender value_of_lane(const Contender& contender, int lane) {
  return {cuda::value_of_lane(contender.weight, lane),
          cuda::value_of_lane(contender.word, lane),
          {cuda::value_of_lane(contender.bounds.lower, lane),
           cuda::value_of_lane(contender.bounds.upper, lane)},
          cuda::value_of_lane(contender.token, lane)};
}

/// Returns whether a contender comes before another one, by the integers. The function is out of
/// line, because it is rarely executed.
__device__ __noinline__ bool arrives_first(std::uint64_t word, uint128_t weight, std::int32_t token,
                                           std::uint64_t other_word, uint128_t other_weight,
                                           std::int32_t other_token) {
  const ArrivalTime time = arrival_time(word);
  const ArrivalTime other_time = arrival_time(other_word);
  if (arrives_before(time, weight, other_time, other_weight)) return true;
  return token < other_token && !arrives_before(other_time, other_weight, time, weight);
}

/// The contenders that reach the first block of a row, and the least upper bound of this block.
struct Shared {
  Contender best[kMaxBlocksOfRow * kMaxThreadsOfBlock / kWarp];
  unsigned long long least;  ///< bits of a double, which have its order because it is positive
};

/// Race of the survivors that one warp has seen; all lanes have the same members.
class Race {
 public:
  /// Lets the contenders of the lanes race with the best contender so far. All lanes must call this
  /// function; `enters` says whether a lane has a contender.
  __device__ __forceinline__ void admit(bool enters, const Contender& mine) {
    const double upper = enters ? mine.bounds.upper : INFINITY;
    least_ = Minimum{}(least_, reduce_warp(upper, Minimum{}));
    unsigned left = __ballot_sync(kAllLanes, enters && mine.bounds.lower <= least_);
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const Contender other = value_of_lane(mine, __ffs(static_cast<int>(left)) - 1);
      if (best_.token < 0 || comes_before_best(other)) best_ = other;
    }
  }

  /// Takes the least upper bound of the block's warps, and gives them this warp's.
  __device__ __forceinline__ void share(Shared& shared) {
    unsigned long long least = 0;
    if (lane_of_thread() == 0) {
      least =
          atomicMin(&shared.least, static_cast<unsigned long long>(__double_as_longlong(least_)));
    }
    least_ = Minimum{}(least_,
                       __longlong_as_double(static_cast<long long>(cuda::value_of_lane(least, 0))));
  }

  __device__ double least_upper() const { return least_; }
  __device__ const Contender& best() const { return best_; }

 private:
  __device__ __forceinline__ bool comes_before_best(const Contender& other) const {
    if (other.bounds.upper < best_.bounds.lower) return true;
    if (best_.bounds.upper < other.bounds.lower) return false;
    return arrives_first(other.word, other.weight, other.token, best_.word, best_.weight,
                         best_.token);
  }

  Contender best_{0, 0, {INFINITY, INFINITY}, -1};
  double least_ = INFINITY;
};

/// Fate of a row, by its mark and its output.
enum class Fate {
  stays,         ///< the row is not marked
  races,         ///< the row's token is that of the race
  has_no_list,   ///< the row fails, because its output is not in its buffer
  has_stranger,  ///< the row fails, because its output has an id that is no token
};

struct RowMark {
  Fate fate;
  std::uint64_t context_key = 0;

  /// Returns whether a row that has a status so far fails by its output. A row without its list has
  /// no other list that could fail first, or the row kernel knows it already.
  __device__ bool fails(RowStatus status) const {
    if (fate == Fate::has_stranger) return status == RowStatus::ok;
    return fate == Fate::has_no_list &&
           (status == RowStatus::ok || status == RowStatus::no_allowed_token);
  }
};

/// Finds the mark of a row, with all threads of the block.
__device__ RowMark mark_of(const MarkRowsTask& task, std::int64_t row) {
  const Watermark& watermark = task.watermark;
  const RowList output = list_of(task.output, row);
  std::uint64_t key = watermark.key.at(row);
  if (!output.in_buffer) return {Fate::has_no_list};
  if (key == 0) return {Fate::stays};
  const std::int32_t window = watermark.rule.window;
  bool has_stranger = false;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < output.length;
       i += static_cast<std::int32_t>(blockDim.x)) {
    has_stranger |= !is_token(output.ids[i], task.filtered.rows.vocab);
  }
  if (__syncthreads_or(has_stranger ? 1 : 0) != 0) return {Fate::has_stranger};
  if (watermark.mask_repeated.at(row) != 0) {
    const bool repeated =
        context_is_repeated(output.ids, output.length, window, threadIdx.x, blockDim.x);
    if (__syncthreads_or(repeated ? 1 : 0) != 0) return {Fate::stays};
  }
  const std::uint64_t second_key = watermark.second_key.at(row);
  if (second_key != 0) {
    const DrawWords words{task.seed.at(row), task.offset.at(row), task.purpose,
                          task.seed.is_array() ? 0 : static_cast<std::uint32_t>(row)};
    if (takes_second_key(watermark.second_share, words.of_attempt(kAttempts + 1))) key = second_key;
  }
  return {Fate::races, context_key(key, window, output.ids, output.length)};
}

/// Survivors of one row, of which each warp lets those of its tiles race.
template <RowForm kForm>
class RowOfContenders {
 public:
  __device__ RowOfContenders(const MarkRowsTask& task, std::int64_t number,
                             std::uint64_t context_key)
      : row_(task.filtered.rows, task.filtered.allowed, number, /*from_probs=*/false,
             task.filtered.edits),
        keys_(task.keys.data + number * task.keys.row_stride),
        kept_(KeptRule::of(task.filtered.records[number], /*from_probs=*/false)),
        rule_{logit_scale(task.filtered.temperature.at(number)), true},
        weigher_(rule_, order_key(task.filtered.records[number].max)),
        context_key_(context_key) {}

  /// Lets the survivors of the tiles first, first + step and so on race.
  __device__ __forceinline__ void run(int first, int step, Race& race, Shared& shared) const {
#pragma unroll 1
    for (; first < row_.tiles(); first += kWarp * step) {
      const int mine = first + lane_of_thread() * step;
      const std::int32_t key = mine < row_.tiles() ? keys_[mine] : kEmptyTileKey;
      unsigned left = __ballot_sync(kAllLanes, mine < row_.tiles() && kept_.reaches(mine, key));
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int lane = __ffs(static_cast<int>(left)) - 1;
        run_tile(first + lane * step, cuda::value_of_lane(key, lane), race);
        race.share(shared);
      }
    }
  }

 private:
  __device__ __forceinline__ void run_tile(int tile, std::int32_t key, Race& race) const {
    const int shift = weigher_.shift_of(key);
    if (shift < 0) return;
    RawTile raw;
    load_again(row_, tile, raw);
    float x[kLaneValues];
    TilePass<kForm, false>::read(row_, raw, x);
    const TileWeights<false> weights(from_order_key(key), rule_);
    const bool quick = weights.are_quick();
    // In each step all values move one place to the front, so that the loop need not be unrolled.
#pragma unroll 1
    for (int i = 0; i < kLaneValues; ++i) {
      const float value = x[0];
#pragma unroll
      for (int v = 0; v + 1 < kLaneValues; ++v) x[v] = x[v + 1];
      const int token = RowOfTiles<kForm>::id_of(tile, i);
      bool enters = kept_.keeps(value, token);
      if (__any_sync(kAllLanes, enters) == 0) continue;
      const std::uint64_t of_tile = quick ? weights.weigh(value) : weights.weigh_slowly(value);
      const uint128_t weight = shifted_to_row(of_tile, shift);
      const std::uint64_t word = keyed_word(context_key_, token);
      enters = enters && of_tile != 0 && !arrives_after(word, weight, race.least_upper());
      if (__any_sync(kAllLanes, enters) == 0) continue;
      ArrivalBounds bounds{INFINITY, INFINITY};
      if (enters) bounds = arrival_bounds(word, weight);
      race.admit(enters, {weight, word, bounds, token});
    }
  }

  RowOfTiles<kForm> row_;
  const std::int32_t* keys_;
  KeptRule kept_;
  TileWeighing rule_;
  RowWeigher<false> weigher_;
  std::uint64_t context_key_;
};

__device__ void fail(const MarkRowsTask& task, std::int64_t row) {
  task.records[row].status = RowStatus::invalid_history;
  task.tokens[row] = -1;
  if (task.statuses != nullptr) task.statuses[row] = RowStatus::invalid_history;
}

template <DType kType, TileAccess kAccess>
__global__ void __launch_bounds__(kMaxThreadsOfBlock)
    mark_rows_kernel(const __grid_constant__ MarkRowsTask task, int blocks_log2) {
  __shared__ Shared shared;
  const RowCluster cluster = RowCluster::of_grid(blocks_log2);
  const std::int64_t row = blockIdx.x >> static_cast<unsigned>(blocks_log2);
  const RowMark mark = mark_of(task, row);
  await_kernel_before();
  let_next_kernel_start();
  const RowRecord& record = task.filtered.records[row];
  if (mark.fails(record.status)) {
    if (cluster.rank == 0 && threadIdx.x == 0) fail(task, row);
    return;
  }
  const bool has_race = record.status == RowStatus::ok && record.greedy_token < 0;
  if (mark.fate != Fate::races || !has_race) return;
  if (threadIdx.x == 0) {
    shared.least = static_cast<unsigned long long>(__double_as_longlong(INFINITY));
  }
  cluster.announce();
  __syncthreads();
  const int warp = cluster.rank * warps_of_block() + warp_of_thread();
  const int warps = cluster.blocks * warps_of_block();
  Race race;
  RowOfContenders<RowForm{kType, kAccess}>(task, row, mark.context_key)
      .run(warp, warps, race, shared);
  cluster.await_all();
  if (lane_of_thread() == 0) *cluster.at(&shared.best[warp], 0) = race.best();
  cluster.sync();
  if (cluster.rank != 0 || warp_of_thread() != 0) return;
  Race last;
#pragma unroll 1
  for (int first = 0; first < warps; first += kWarp) {
    const int i = first + lane_of_thread();
    const Contender mine = i < warps ? shared.best[i] : Contender{0, 0, {0, 0}, -1};
    last.admit(mine.token >= 0, mine);
  }
  if (lane_of_thread() == 0) task.tokens[row] = last.best().token;
}

}  // namespace

cudaError_t mark_rows(const MarkRowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_for_form(task.filtered.rows, [&]<RowForm kForm>() {
    return launch_spread<mark_rows_kernel<kForm.type, kForm.access>>(task.filtered.rows.rows,
                                                                     spread, needs, stream, task);
  });
}

}  // namespace fairdraw::cuda
