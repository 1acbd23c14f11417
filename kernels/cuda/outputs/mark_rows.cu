// Gives each marked row the token that wins the race of its survivors (fairdraw/watermark.h).
//
// Contract. The kernel mark_rows runs after the row kernel, whose tokens stay in rows that are not
// marked: a row without a key, a row whose context is repeated, a greedy row. A row whose output is
// not in its buffer fails, and so does a marked row whose output has an id that is no token, unless
// the row has failed already. In calls that may have rows with top_p alone, find_marks
// (row_marks.cu) runs before the row kernel.
//
// Algorithm and cost. Half of a block's warps find the row's mark: the first computes the context's
// key, in `window` + 1 blocks of Threefry, and the others look at the ids of the output. They need
// only arrays of the call, so a block that starts while the row kernel still runs does not wait for
// it (device/early_start.h). The other warps list the tiles whose largest value reaches the row's
// threshold. Then the survivors race (mark_rows.cuh). Contenders are compared by bounds, within
// 2^-46, and only if these overlap by the integers, whose 128 squares of 128 bits take 20
// microseconds. Each warp sends its best contender to the first block of the row, where a warp lets
// them race in the same way. In calls with top_k, the kernel does not start early, because this
// takes 3 microseconds more there, and up to 4 less in other calls.
//
// Open rows. A row with top_p alone draws by proposals, and a search of its threshold would take
// longer than all else. So find_marks gives the row kernel a top_p of 1 for marked rows with top_p
// alone, which are then open: the record has the weight Z of all allowed tokens. More tokens race
// than survive, those above `low`. The winner is the row's token if it survives, because no
// survivor arrives before it. It survives if the weight A of all larger values is below the target.
//   cut      A weight W(y) of a value y <= x is below W(x) (1 + 2^-20) + 2^48: significands are off
//            by 2.2e-7 (common/tile_weights.h), and shifts in a tile cut off less than 2^48. So if
//            W(x) is at most ((Z - target) / V - 2^48) (1 - 2^-20), then the values up to x weigh
//            Z - target at most, A is at least the target, and x does not survive. Floats compute
//            this within 2^-20, so the factor is 1 - 2^-18.
//   bracket  `low` is a value that likely does not survive, from a sample, or the cut's if it is
//            larger. The weight of the tokens that race, a sum of floats, shows whether it does not
//            survive; if it may, all tokens above the cut race. The sum above a second value,
//            `high`, shows for most winners that they survive. For the others, one more pass over
//            the tiles with larger values finds A exactly. If the winner does not survive, nor does
//            any value up to its own, and the others race again.
//
// The table has microseconds on an H200, marked / plain, by `fairdraw bench`: V = 128256, float32,
// peaked logits, 512 ids per output, cold L2 cache, replays in turns.
//   rows (blocks of each)     1 (16)       8 (8)        64 (2)       256 (1)
//   top_k 50                  37 / 17      37 / 20      44 / 28      82 / 55
//   top_k 50 and top_p 0.9    41 / 19      39 / 21      45 / 30      78 / 56
//   min_p 0.05                29 / 12      28 / 13      38 / 23      73 / 52
//   top_p 0.9                 35 / 20      39 / 26      63 / 39     132 / 87
//   no filter                 35 / 11      43 / 13      91 / 21     293 / 50
// Words limit rows without a filter: at 64 rows, they alone take 40 microseconds.
//
// Alternatives that were tried, with their times at 64 rows in a small program of this form of rows
// alone, whose code stays in the instruction caches.
//                                              top_k 50   top_p 0.9   no filter
//   plain call                                       27          41          20
//   this kernel                                      35          60          86
//   bounds within 10^-3, and the threshold           59         209         131
//   the mark first, lists by steps of a tile         44         133          89
//   the mark beside lists, a bracket by doubles      40          79          86
//   4 blocks of 256 threads per row                  49          65         143
//   an early start after all row kernels             39          59          86
//   no early start                                   37          64          90
//   early, and the code run once before              40          59          86
// The second alternative has all tokens above the cut in open rows. Rows differ in their work.
// Smaller blocks that share the SMs do more of a row with much work at once, but not all of them
// fit beside each other, and those that wait double the time.
// In `fairdraw bench`, the code of the race is not in the caches, and running it once before the
// wait, for made-up candidates, takes 3 microseconds off a row with top_p and 0.5 off 64 rows with
// top_k. With top_k in 64 rows, an early start then changes nothing.
//
// Determinism. Bounds are never wrong (serving/rules/watermark_rules.h), so that they decide how
// long a race takes, but not who wins: the survivor with the least time, and the lowest id among
// equals. Sums of floats decide only what is certain within their error.
#include <cmath>
#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/mark_rows.cuh"
#include "cuda/outputs/mark_rows.h"
#include "cuda/outputs/row_marks.cuh"
#include "cuda/rows/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

/// Race of a row among all of its blocks.
template <RowForm kForm>
class RowRace {
 public:
  __device__ RowRace(const MarkRowsTask& task, std::int64_t row, const RowCluster& cluster,
                     Candidate* listed, RaceMemory& shared)
      : task_(task),
        row_(row),
        record_(task.filtered.records[row]),
        cluster_(cluster),
        shared_(shared),
        listed_(listed),
        warp_(cluster.rank * warps_of_block() + warp_of_thread()),
        warps_(cluster.blocks * warps_of_block()),
        contenders_(task, row, record_, warp_, warps_) {}

  /// Lists the tiles of a row that is not open, with the threads from `first_thread` on.
  __device__ __forceinline__ void list_tiles(int first_thread) const {
    contenders_.list_tiles(first_thread, cluster_, shared_);
  }
  __device__ void set_context(std::uint64_t context_key) { contenders_.set_context(context_key); }

  __device__ __forceinline__ void run(bool is_open) {
    Limits limits{};
    if (is_open) limits = find_limits();
#pragma unroll 1
    while (true) {
      if (is_open) {
        list_tiles(0);
        __syncthreads();
      }
      find_winner(is_open, limits);
      if (!is_open) {
        if (warp_ == 0 && lane_of_thread() == 0) task_.tokens[row_] = shared_.winner.token;
        return;
      }
      cluster_.sync();
      bool survives = shared_.verdict == Verdict::accepts;
      if (shared_.verdict == Verdict::tests) {
        limits.low = shared_.winner.value;
        survives =
            weight_above(limits.low) < nucleus_target(task_.open.asked.at(row_), record_.weight());
      }
      if (survives) {
        if (warp_ == 0 && lane_of_thread() == 0) task_.tokens[row_] = shared_.winner.token;
        return;
      }
      contenders_.set_low(limits.low);
      start_again();
    }
  }

 private:
  /// Bounds by which the tokens of an open row race.
  struct Limits {
    float low;     ///< value that does not survive
    float target;  ///< weight that the values above a token must have for it not to survive, in
                   ///< units of 2^kRoughUnit
  };

  /// Finds the limits of an open row, and sets the bracket of the tokens that race.
  __device__ __forceinline__ Limits find_limits() {
    const float top_p = task_.open.asked.at(row_);
    const float total = __ull2float_rn(record_.total_high) * 0x1p-39F;
    const float rest = (1.0F - top_p) * total;
    const float cut =
        rest / static_cast<float>(task_.filtered.rows.vocab) * (1.0F - 0x1p-18F) - 0x1p-55F;
    const Limits limits{contenders_.value_of_weight(cut), top_p * total};
    contenders_.sample(shared_);
    __syncthreads();
    float likely = 0, high = 0;
    contenders_.find_bracket(rest, shared_, likely, high);
    contenders_.set_high(high);
    contenders_.set_low(fmaxf(limits.low, likely));
    return limits;
  }

  __device__ __forceinline__ void start_again() const {
    if (lane_of_thread() == 0) shared_.best[warp_of_thread()] = no_contender();
    if (threadIdx.x == 0) {
      shared_.least = __float_as_uint(INFINITY);
      shared_.tile_count = shared_.next_tile = 0;
    }
    __syncthreads();
  }

  /// Finds the winner of a race, and stores it in the first block, with the verdict on it.
  __device__ __forceinline__ void find_winner(bool is_open, const Limits& limits) {
    cluster_.announce();
    const BracketSums sums = contenders_.run(listed_, shared_);
    __syncwarp();
    cluster_.await_all();
    Contender& best = shared_.best[warp_of_thread()];
    if (lane_of_thread() == 0) {
      *cluster_.at(&shared_.finalists[warp_], 0) = best;
      *cluster_.at(&shared_.sums[warp_], 0) = sums;
    }
    cluster_.sync();
    if (warp_ != 0) return;
    BracketSums all{};
#pragma unroll 1
    for (int first = 0; first < warps_; first += kWarp) {
      const int i = first + lane_of_thread();
      const int place = min(i, warps_ - 1);
      Contender mine = shared_.finalists[place];
      if (i >= warps_ || i == 0) mine = no_contender();  // number 0 is the warp's own best
      if (i < warps_) {
        all.above_low += shared_.sums[place].above_low;
        all.above_high += shared_.sums[place].above_high;
      }
      admit(mine, best.bounds.upper, shared_);
    }
    __syncwarp();
    if (is_open) {
      constexpr float kError = 0x1p-9F;  // bound of the relative error of sums of rough weights
      const float above_low = reduce_warp(all.above_low, Add{});
      const float above_high = reduce_warp(all.above_high, Add{});
      const bool is_whole =
          contenders_.low() <= limits.low || above_low * (1.0F - kError) >= limits.target;
      const bool accepts = best.value >= contenders_.high() &&
                           contenders_.high() >= contenders_.low() &&
                           above_high * (1.0F + kError) < limits.target;
      const Verdict verdict = !is_whole ? Verdict::widens
                              : accepts ? Verdict::accepts
                                        : Verdict::tests;
      if (lane_of_thread() < cluster_.blocks) {
        RaceMemory& theirs = *cluster_.at(&shared_, lane_of_thread());
        theirs.verdict = verdict;
        theirs.winner.value = best.value;
      }
    }
    if (lane_of_thread() == 0) shared_.winner.token = best.token;
    __syncwarp();
  }

  /// Returns the weight of all values of the row above x, on all threads of all blocks.
  __device__ __forceinline__ uint128_t weight_above(float x) {
    const uint128_t mine = contenders_.weight_above(x);
    for (int block = lane_of_thread(); block < cluster_.blocks; block += kWarp) {
      *cluster_.at(&shared_.above[warp_], block) = mine;
    }
    cluster_.sync();
    uint128_t sum = 0;
    for (int i = lane_of_thread(); i < warps_; i += kWarp) sum += shared_.above[i];
    return reduce_warp(sum, Add{});
  }

  const MarkRowsTask& task_;
  std::int64_t row_;
  RowRecord record_;
  RowCluster cluster_;
  RaceMemory& shared_;
  Candidate* listed_;  ///< list of the warp
  int warp_, warps_;
  RowOfContenders<kForm> contenders_;
};

template <DType kType, TileAccess kAccess>
__global__ void __launch_bounds__(kMaxThreadsOfBlock)
    mark_rows_kernel(const __grid_constant__ MarkRowsTask task, int blocks_log2) {
  __shared__ RaceMemory shared;
  extern __shared__ Candidate listed[];
  const RowCluster cluster = RowCluster::of_grid(blocks_log2);
  const std::int64_t row = blockIdx.x >> static_cast<unsigned>(blocks_log2);
  const int marking =
      warps_of_block() / 2;  // warps that find the mark, while the others list tiles
  const bool is_found = task.marks != nullptr;
  if (threadIdx.x == 0) {
    shared.least = __float_as_uint(INFINITY);
    shared.tile_count = shared.next_tile = 0;
    shared.has_stranger = shared.is_repeated = 0;
  }
  if (threadIdx.x < kMarkWarps) shared.best[threadIdx.x] = no_contender();
  for (int i = static_cast<int>(threadIdx.x); i < place_of_bin(kBins);
       i += static_cast<int>(blockDim.x)) {
    shared.bins[i] = 0;
  }
  __syncthreads();
  if (!is_found && warp_of_thread() < marking) {
    const RowMark mark =
        mark_of(task, row, marking * kWarp, shared.has_stranger, shared.is_repeated);
    if (threadIdx.x == 0) shared.mark = mark;
  }
  await_kernel_before();
  let_next_kernel_start();
  const RowStatus status = task.filtered.records[row].status;
  const bool has_race = status == RowStatus::ok && task.filtered.records[row].greedy_token < 0;
  const bool is_open = has_race && task.open.is_open(row);
  RowMark mark = is_found ? task.marks[row] : RowMark{};
  RowRace<RowForm{kType, kAccess}> race(task, row, cluster, listed + warp_of_thread() * kListed,
                                        shared);
  if (has_race && !is_open && warp_of_thread() >= marking) race.list_tiles(marking * kWarp);
  __syncthreads();
  if (!is_found) mark = mark_with(shared.mark, shared.has_stranger, shared.is_repeated);
  if (fails(mark, status)) {
    if (cluster.rank == 0 && threadIdx.x == 0) fail(task, row);
    return;
  }
  if (mark.fate != MarkFate::marked || !has_race) return;
  race.set_context(mark.context_key);
  race.run(is_open);
}

}  // namespace

cudaError_t mark_rows(const MarkRowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  const auto bytes = [](int threads) {
    return threads / kWarp * kListed * static_cast<int>(sizeof(Candidate));
  };
  const SpreadNeeds needs{bytes, task.starts_early};
  return launch_for_form(task.filtered.rows, [&]<RowForm kForm>() {
    return launch_spread<mark_rows_kernel<kForm.type, kForm.access>>(task.filtered.rows.rows,
                                                                     spread, needs, stream, task);
  });
}

}  // namespace fairdraw::cuda
