// From rows of logits or probabilities to their survivors, and to tokens: one launch, no sorting.
//
// Contract. Row i of a RowsTask becomes token i and status i, or record i, or all of them. Any
// dtype, vocabulary of 1 to 2^20, stride and alignment; parameters, seeds and offsets are read from
// device memory, so that a replayed graph reads them again. No allocation, no synchronisation. What
// is wrong with a row or its parameters fails that row alone.
//
// Semantics: fairdraw/sample.h, in the integers of kernels/common/exp2fix.h. Bit for bit what the
// CPU path and the integer model give.
//
// Algorithm. 1 to 8 blocks share a row: a thread-block cluster, whose blocks write into each
// other's shared memory, on compute capability 9.0; one block elsewhere, by the same code. The row
// is read from HBM once. Most of it stays in shared memory (row_segment.cuh); what does not fit is
// read again from L2. Rows of one batch take different paths, by their parameters; a path is the
// same for all threads of a row, so barriers are safe.
//   all       load, maximum and NaN check in one walk; blocks tell each other their maxima (1)
//   greedy    the first block that has the maximum knows its lowest id: done
//   none, min_p   one walk for the sum of weights; blocks tell their sums (2)
//             the block in which the drawn prefix sum lies searches one warp's part: done
//   top_k     k thread maxima reach a bound, so at least k values do; what reaches it is listed and
//             sent to the first block (2)
//             which sorts by counting and ends the row, top_p included (list_finish.cuh)
//   top_p     the bracket in which it cuts is guessed while the row comes; one walk for the sums
//             and the values in the bracket (2)
//             the first block finds the cut and says who draws (3)
//             that block searches (row_nuclei.cuh); a nucleus among the largest values: as top_k
//   else      a selection over the row by four levels of bins at most (row_selection.cuh): top_k of
//             more than half of the thread maxima, lists that overflow, guesses that fail
// (n): barriers of the cluster up to there. Cost: one walk over V / (blocks * threads) values a
// thread for the maximum, one with 16 instructions a value for weights; nothing depends on k or on
// the values but which path is taken, and every loop is bounded.
//
// Randomness. One Philox word an output (philox.h), computed while the row comes.
//
// Numerics. Values are compared as floats, -0 equal to +0, and never by their weights, which are
// not monotone in the last bit. Sums of weights are exact (row_weights.cuh). Floats decide only
// what is guessed: bounds, brackets. Each guess is checked by exact sums.
//
// Determinism. Integer sums do not depend on their order, lists are in token-id order or sorted
// with it, and atomics add integers. So tokens do not depend on the number of blocks, nor on their
// timing.
//
// What was tried, on an H200, V = 128256, float32, microseconds from a cold L2 (B rows):
//   bulk copies in four parts instead of one: the walk is split into pieces, 0.8 slower at B = 1
//   16-byte cp.async instead of bulk copies: equal within 0.2 at B = 64
//   streamed steps read when they are needed instead of before the wait: 35 instead of 29, B = 64
//   parameters and random word after the load instead of before: 1 slower at B = 1
//   blocks with parts of unequal size (whole steps): an empty block has no thread maxima, and its
//     rows need a selection, 95 instead of 14.5 at V = 262144, B = 1
//   four threads' maxima together where k is small: the bound takes 1200 cycles less
//   converting weights to double by integer operations instead of F2F: equal
//   prefix sums over a warp as functions that are called: 5 to 10 % slower, registers are spilled
//   values of the bracket in slots of shared memory, 4 a thread: too few for 4 threads in 10 warps,
//     whose warps look again, 20000 cycles; a bit for each of the last 128 values: 8000
//   all of a vector's values counted in the head by its own thread: 5000 cycles; by the warp: 2000
//   4 blocks of 512 threads, two a multiprocessor, at B = 256: 89 to 94 instead of 79 to 88 for 2
//     blocks of 1024; their phases do not overlap either
//   a bracket guessed from the resident steps alone: at V = 262144 its list overflows, and rows of
//     peaked logits need a selection, 330 instead of 85 at B = 64
//   one maximum a thread where two blocks of 512 share a row: top_k 1000 needs a selection, 114
//     instead of 48 at V = 32000, B = 256; two a thread everywhere: 1.5 slower at B = 1
//   bfloat16 of V = 128256, B = 256: 62 with 1 block of 512 and 65 with 2 of 512, two a
//     multiprocessor, 71 with 2 of 1024; the first has a selection for every top_k above 512
//   blocks that take one row after the other and load the next while they end one, for B = 256: the
//     compiler keeps what does not depend on the row in registers, and spills 4 KiB a thread
// What bounds it: at B = 1 instructions that are fetched from L2 for the first time (a fifth to a
// third of every phase); at B = 64 and 256 loading (1.4 x the floor with the first barrier) and the
// paths after it do not overlap, because the blocks of one wave are in the same phase.
#pragma once

#include "common/min_p.h"
#include "common/processing_rules.h"
#include "cuda/row_filter/row_fault.h"
#include "cuda/row_filter/row_nuclei.cuh"
#include "cuda/row_filter/row_selection.cuh"

namespace fairdraw::cuda {

/// Above the keys of all values.
inline constexpr std::uint32_t kRowFaultKey = 0xffffff00U;

template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
class RowFilter : public RowNuclei<kType, kFromProbs, kThreads, kProcessed> {
 public:
  using Base = RowNuclei<kType, kFromProbs, kThreads, kProcessed>;
  using Base::Base;
  using Base::kPerVector;
  using Base::kSmallestAllowed;
  using Base::kWarps;
  using typename Base::Segment;
  using typename Base::Work;
  static constexpr int kMaxima = kThreads * BlockMemory<kThreads>::kMaximaOfThread;

  /// Up to the row's maximum. The status, where it is decided; all blocks agree.
  __device__ __forceinline__ RowStatus find_maximum() {
    work_.cluster.announce();
    if (work_.task.active.given() && work_.task.active.data[work_.row] == 0) {
      work_.cluster.await_all();
      return RowStatus::inactive;
    }
    std::uint64_t* loaded = &memory_.loaded[work_.warp];
    segment_.prefetch_changes();
    segment_.start_load(loaded, bulk_);
    typename Segment::Stream stream = segment_.open_stream(true);
    prepare();
    if constexpr (kProcessed) await_edits();
    const typename Segment::Found found =
        segment_.scan(stream, loaded, bulk_, [&](const float(&x)[kPerVector], float thread_max) {
          if (needs_sample_) take_sample(x, thread_max);
        });
    thread_max_ = found.max;
    streamed_max_ = found.streamed_max;
    return publish_maximum(found);
  }

  /// Requires: the row's maximum is known and allowed. False where it needs a selection over the
  /// row.
  __device__ __forceinline__ bool finish() {
    if (greedy_) {
      finish_greedy();
      return true;
    }
    work_.low = work_.base = kSmallestAllowed;
    if (work_.parameters.min_p > 0.0F) {
      work_.base = work_.low = fmaxf(kSmallestAllowed, lowest_kept_by_min_p());
    }
    const bool filtered = work_.top_k_on() || work_.top_p_on();
    // More would not be found among thread maxima.
    if (work_.top_k_on() && work_.parameters.top_k > kMaxima * work_.cluster.blocks / 2) {
      return false;
    }
    // Where the bound is the maximum, k values or more share it: too many to list, perhaps.
    const bool tied = filtered && head_threshold_ >= work_.max;
    const bool ties_survive = tied && are_ties_survivors();
    if (ties_survive) work_.low = work_.max;
    if (!filtered || ties_survive) {
      finish_by_sum();
      return true;
    }
    if (!tied && !work_.top_k_on() && !head_contains_nucleus()) {
      const Bracket bracket = guess_nucleus();
      if (bracket.low < head_threshold_) return finish_by_bracket(bracket);
    }
    // What top_p is measured on.
    const bool row_mass =
        work_.task.total_of_row ||
        (work_.top_p_on() && (!work_.top_k_on() || work_.task.filter_order == FilterOrder::joint));
    return finish_by_list(fmaxf(head_threshold_, work_.base), row_mass);
  }

 private:
  using Base::bin_of;
  using Base::bulk_;
  using Base::count_head;
  using Base::dynamic_;
  using Base::finish_by_bracket;
  using Base::finish_by_list;
  using Base::greedy_;
  using Base::guess_nucleus;
  using Base::head_contains_nucleus;
  using Base::head_threshold_;
  using Base::lowest_with_weight;
  using Base::memory_;
  using Base::min_p_octaves_;
  using Base::needs_sample_;
  using Base::segment_;
  using Base::send_sample;
  using Base::streamed_max_;
  using Base::take_sample;
  using Base::thread_max_;
  using Base::word_;
  using Base::work_;
  using typename Base::Bracket;

  // --- The maximum -------------------------------------------------------------------------------

  /// Waits for the kernel that makes the edits (edit_rows.cu), which lets this one start early.
  __device__ __forceinline__ static void await_edits() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }

  /// What needs no logit, while the row comes.
  __device__ __forceinline__ void prepare() {
    const RowParameters& parameters = work_.parameters;
    if (work_.thread == 0) memory_.first = INT_MAX;
    const bool ties_of_largest = work_.task.top_k_1_keeps_ties && parameters.top_k == 1;
    greedy_ = is_greedy(parameters) && !ties_of_largest;
    needs_sample_ = !greedy_ && work_.top_p_on() && !work_.top_k_on();
    if (needs_sample_) {
      auto* ring = reinterpret_cast<uint4*>(dynamic_.ring);
      for (int i = work_.thread; i < static_cast<int>(sizeof(SampleRing) / 16); i += kThreads) {
        ring[i] = make_uint4(0, 0, 0, 0);
      }
      __syncthreads();
    }
    work_.weight = typename Work::Weight(parameters.temperature);
    if (work_.draws() && !greedy_) word_ = work_.word();
    if (!kFromProbs && parameters.min_p > 0.0F) min_p_octaves_ = min_p_octaves(parameters.min_p);
  }

  __device__ __forceinline__ RowStatus publish_maximum(const typename Segment::Found& found) {
    const RowFault of_values = found.raw_max != found.raw_max ? RowFault::nan_input
                               : found.raw_max > FLT_MAX      ? RowFault::infinite_input
                               : found.negative               ? RowFault::negative_probability
                                                              : RowFault::none;
    auto fault = static_cast<std::uint32_t>(of_values);
    if constexpr (kProcessed) fault = max(fault, work_.task.edits.faults[work_.row]);
    // One key for both: a fault is above all values.
    const std::uint32_t key = fault > 0 ? kRowFaultKey + fault : unsigned_key(thread_max_);
    const std::uint32_t key_of_warp = warp_max(key);
    // Threads without a value are left out of the smallest thread maximum.
    const std::uint32_t least_of_warp =
        warp_min(thread_max_ >= kSmallestAllowed ? unsigned_key(thread_max_) : 0xffffffffU);
    if (work_.lane == 0) {
      memory_.warp_key[0][work_.warp] = key_of_warp;
      memory_.warp_key[1][work_.warp] = least_of_warp;
    }
    const RowParameters& parameters = work_.parameters;
    const bool needs_head = !greedy_ && (work_.top_k_on() || work_.top_p_on());
    // One block may have few values, or small ones: the others have enough.
    const int relied_on = work_.cluster.blocks - spare_blocks();
    const int wanted =
        ((work_.top_k_on() ? parameters.top_k : kHeadSize) + relied_on - 1) / relied_on;
    // Few are found faster among the maxima of four threads, and many among two of each thread.
    const bool in_fours = 8 * wanted <= kThreads;
    const bool in_halves = kMaxima > kThreads && 2 * wanted > kThreads;
    if (needs_head) {
      if (in_halves) {
        memory_.thread_max[work_.thread] = found.even;
        memory_.thread_max[kMaxima - kThreads + work_.thread] = found.odd;
      } else if (in_fours) {
        float most = fmaxf(thread_max_, __shfl_xor_sync(kAllLanes, thread_max_, 1));
        most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
        if (work_.lane % 4 == 0) memory_.thread_max[work_.thread / 4] = most;
      } else {
        memory_.thread_max[work_.thread] = thread_max_;
      }
    }
    __syncthreads();
    PartMaximum mine{};
    mine.max_key = warp_max(work_.lane < kWarps ? memory_.warp_key[0][work_.lane] : 0U);
    const float best = from_unsigned_key(mine.max_key);
    if (greedy_) {
      if (thread_max_ == best) find_first(best);
      __syncthreads();
      mine.first = memory_.first;
    }
    if (needs_head) {
      const int maxima = in_halves ? kMaxima : in_fours ? kThreads / 4 : kThreads;
      const float tail = end_of_head(wanted, maxima / kWarp, best);
      mine.tail_key = unsigned_key(tail);
      if (needs_sample_) {
        mine.top = bin_of(best);
        count_head(tail);
        __syncthreads();
      }
    }
    work_.cluster.await_all();
    if (work_.thread < work_.cluster.blocks) {
      *work_.cluster.at(&memory_.maximum[work_.cluster.rank], work_.thread) = mine;
    }
    if (needs_sample_) send_sample(mine.top);
    work_.cluster.sync();
    return combine_block_maxima();
  }

  /// Blocks whose part of the row may be unlike the others'.
  __device__ __forceinline__ int spare_blocks() const { return work_.cluster.blocks >= 4 ? 1 : 0; }

  /// Greedy rows: the first of the thread's values that equals the block's maximum.
  __device__ __forceinline__ void find_first(float best) {
    int first = INT_MAX;
    segment_.for_each([&](const float(&x)[kPerVector], int position) {
#pragma unroll
      for (int j = kPerVector - 1; j >= 0; --j) {
        if (x[j] == best) first = min(first, position + j);
      }
    });
    atomicMin(&memory_.first, first);
  }

  /// A value that at least `wanted` of the block's values reach, and not many more: two rounds of
  /// one pivot a warp, over `maxima` numbers for each lane in memory_.thread_max. -inf where there
  /// are not that many.
  __device__ __forceinline__ float end_of_head(int wanted, int maxima, float most) {
    const std::uint32_t least =
        warp_min(work_.lane < kWarps ? memory_.warp_key[1][work_.lane] : 0xffffffffU);
    float low = from_unsigned_key(least);
    float high = most;
    // The first pivot is the smallest maximum, however small: the others lie where values weigh
    // something, so that one value far below does not make their steps too wide.
    float first = fmaxf(low, lowest_pivot(most));
    bool enough = true;
#pragma unroll 1
    for (int round = 0; round < 2; ++round) {
      const float step = (high - first) / static_cast<float>(kWarps);
      const auto pivot_of = [&](int warp) {
        return warp == 0 ? low : first + step * static_cast<float>(warp);
      };
      const float pivot = pivot_of(work_.warp);
      int reached = 0;
#pragma unroll 4
      for (int i = 0; i < maxima; ++i) {
        reached += memory_.thread_max[i * kWarp + work_.lane] >= pivot ? 1 : 0;
      }
      reached = __reduce_add_sync(kAllLanes, reached);
      if (work_.lane == 0) memory_.warp_count[round][work_.warp] = reached;
      __syncthreads();
      const unsigned good = __ballot_sync(
          kAllLanes, work_.lane < kWarps && memory_.warp_count[round][work_.lane] >= wanted);
      enough = enough && (good & 1U) != 0;
      const int last = good != 0 ? 31 - __clz(static_cast<int>(good)) : 0;
      high = first + step * static_cast<float>(last + 1);
      low = first = pivot_of(last);
    }
    return enough ? low : -INFINITY;
  }

  /// Below it logits weigh nothing.
  __device__ __forceinline__ float lowest_pivot(float most) const {
    if constexpr (kFromProbs) return -INFINITY;
    return most - kWeightlessOctaves / work_.weight.scale;
  }

  /// What the blocks found, put together. The same in all blocks.
  __device__ __forceinline__ RowStatus combine_block_maxima() {
    RowStatus invalid = check(work_.parameters);
    if constexpr (kProcessed) {
      if (invalid == RowStatus::ok) {
        invalid = check(parameters_of(work_.task.processing, work_.row));
      }
    }
    if (invalid != RowStatus::ok) return invalid;
    const bool there = work_.lane < work_.cluster.blocks;
    const std::uint32_t key = warp_max(there ? memory_.maximum[work_.lane].max_key : 0U);
    if (key > kRowFaultKey) return status_of(static_cast<RowFault>(key - kRowFaultKey));
    work_.max = from_unsigned_key(key);
    if (!(work_.max >= kSmallestAllowed)) return RowStatus::no_allowed_token;
    work_.weight.set_max(work_.max);
    std::uint32_t tail = there ? memory_.maximum[work_.lane].tail_key : 0xffffffffU;
    // For top_p alone no number of values is needed: blocks without a head have nothing to say.
    if (!work_.top_k_on() && tail == unsigned_key(-INFINITY)) tail = 0xffffffffU;
    for (int spare = spare_blocks(); spare > 0; --spare) {  // the smallest is left out
      const unsigned smallest = __ballot_sync(kAllLanes, tail == warp_min(tail));
      if (work_.lane == __ffs(static_cast<int>(smallest)) - 1) tail = 0xffffffffU;
    }
    tail = warp_min(tail);
    head_threshold_ = tail == 0xffffffffU ? -INFINITY : from_unsigned_key(tail);
    return RowStatus::ok;
  }

  __device__ __forceinline__ void finish_greedy() {
    if (work_.cluster.rank != 0 || work_.thread != 0) return;
    int block = 0;
    while (from_unsigned_key(memory_.maximum[block].max_key) != work_.max) ++block;
    const int token = memory_.maximum[block].first;
    work_.write({RowStatus::ok, token, work_.max, work_.max, work_.vocab, 0, 0}, token);
  }

  /// The smallest float that min_p keeps.
  __device__ __forceinline__ float lowest_kept_by_min_p() const {
    const float min_p = work_.parameters.min_p;
    if constexpr (kFromProbs) {
      // 24 by 24 bits: the product is exact in double.
      const double exact = static_cast<double>(min_p) * static_cast<double>(work_.max);
      const float nearest = __double2float_rn(exact);
      return static_cast<double>(nearest) < exact ? next_above(nearest) : nearest;
    } else {
      // y does not fall as x grows, so the values that are kept are those above one float: 32 at a
      // time are tried, first around where real numbers would put it.
      const float octaves = min_p_octaves_;
      const auto keeps = [&](std::int64_t key) {
        return work_.weight.distance(from_order_key(static_cast<std::int32_t>(key))) >= octaves;
      };
      std::int64_t kept = order_key(work_.max);
      std::int64_t below = std::int64_t{order_key(-FLT_MAX)} - 1;
      const float guess = work_.max + octaves / work_.weight.scale;
      if (fabsf(guess) <= FLT_MAX) {
        const std::int64_t first = std::int64_t{order_key(guess)} - kWarp / 2;
        const std::int64_t key = first + work_.lane;
        const bool in_range = key > below && key <= kept;
        const unsigned good = __ballot_sync(kAllLanes, key > kept || (in_range && keeps(key)));
        if (good != 0 && (good & 1U) == 0) {
          const std::int64_t found = first + __ffs(static_cast<int>(good)) - 1;
          if (found <= kept) return from_order_key(static_cast<std::int32_t>(found));
        }
      }
#pragma unroll 1
      while (kept - below > 1) {
        const std::int64_t step = (kept - below + kWarp - 1) / kWarp;
        const std::int64_t key = below + step * (work_.lane + 1);
        const unsigned good = __ballot_sync(kAllLanes, key >= kept || keeps(key));
        const int lane = __ffs(static_cast<int>(good)) - 1;
        const std::int64_t top = below + step * (lane + 1);
        below = below + step * lane;
        kept = top < kept ? top : kept;
      }
      return from_order_key(static_cast<std::int32_t>(kept));
    }
  }

  // --- Ties of the maximum -----------------------------------------------------------------------

  /// Requires: top_k or more values equal the maximum, or many do. Whether its ties
  /// are the survivors, all of them.
  __device__ __forceinline__ bool are_ties_survivors() {
    // No cut of top_p is above the maximum.
    if (work_.top_k_on()) return work_.task.tie_rule != TieRule::lowest_id;
    return ties_hold_nucleus();
  }

  /// True where the ties of the maximum weigh what top_p asks.
  __device__ __forceinline__ bool ties_hold_nucleus() {
    ExactSum total;
    std::uint64_t ties = 0;
    const float lowest = lowest_with_weight(work_.base);
    segment_.for_each([&](const float(&x)[kPerVector], int) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        total.add(work_.weight(x[j], lowest));
        ties += x[j] == work_.max ? 1 : 0;
      }
    });
    const std::uint64_t warp_total = warp_sum(total.value());
    ties = warp_sum(ties);
    if (work_.lane == 0) {
      memory_.warp_sum[0][work_.warp] = warp_total;
      memory_.warp_sum[1][work_.warp] = ties;
    }
    __syncthreads();
    PartSums mine{};
    mine.total = work_.block_sum(0);
    mine.inside = work_.block_sum(1);
    const PartSums* sums = work_.exchange(mine);
    const std::uint64_t weight_of_ties =
        work_.total_of(sums, &PartSums::inside) * integer_weight(work_.weight(work_.max));
    return weight_of_ties >=
           nucleus_target(work_.parameters.top_p, work_.total_of(sums, &PartSums::total));
  }

  // --- No filter, or min_p alone -----------------------------------------------------------------

  __device__ __forceinline__ void finish_by_sum() {
    const float low = work_.low;
    std::uint64_t sum = 0;
    if (low == kSmallestAllowed) {  // absent values weigh nothing by themselves
      sum = sum_of_weights([&](float x) { return work_.weight(x); });
    } else if (__any_sync(kAllLanes, thread_max_ >= low)) {
      const float lowest = lowest_with_weight(low);
      sum = sum_of_weights([&](float x) { return work_.weight(x, lowest); });
    }
    sum = warp_sum(sum);
    if (work_.lane == 0) memory_.warp_sum[0][work_.warp] = sum;
    __syncthreads();
    PartSums mine{};
    mine.total = work_.block_sum(0);
    const PartSums* sums = work_.exchange(mine);
    const std::uint64_t total = work_.total_of(sums, &PartSums::total);
    if (!work_.draws()) {
      if (work_.cluster.rank == 0 && work_.thread == 0) work_.write_cut(total, -1);
      return;
    }
    std::uint64_t left = multiply_high(word_, total);
    if (work_.owner_of(sums, left) != work_.cluster.rank) return;
    const int token = work_.locate(segment_, left, [&](float x, int) {
      return x >= low ? integer_weight(work_.weight(x)) : std::uint64_t{0};
    });
    if (work_.thread == 0) work_.write_cut(total, token);
  }

  /// Sum over this thread's values, two sums at a time so that none waits for the other.
  template <class Weigh>
  __device__ __forceinline__ std::uint64_t sum_of_weights(Weigh&& weigh) const {
    ExactSum even;
    ExactSum odd;
    segment_.for_each(
        [&](const float(&x)[kPerVector], int) {
#pragma unroll
          for (int j = 0; j < kPerVector; j += 2) {
            even.add(weigh(x[j]));
            odd.add(weigh(x[j + 1]));
          }
        },
        streamed_max_ >= work_.low);
    return even.value() + odd.value();
  }
};

/// Rows that need a selection over the row: the state is rebuilt from a few numbers, so that the
/// common paths do not keep it for this one.
template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
__device__ __noinline__ void select_over_row(const RowsTask& task, const RowShape& shape,
                                             BlockMemory<kThreads>& memory, uint4* dynamic,
                                             float max, float base, int exchanges) {
  using Segment = RowSegment<kType, kFromProbs, kThreads, kProcessed>;
  RowWork<kFromProbs, kThreads> work(task, shape.blocks, memory);
  const Segment segment(task.rows, work.row, allowed_of<kProcessed>(task, work.row),
                        edits_of(task.edits, work.row), shape, work.cluster.rank, dynamic);
  work.max = max;
  work.base = work.low = base;
  work.exchanges = exchanges;
  work.weight = typename RowWork<kFromProbs, kThreads>::Weight(work.parameters.temperature);
  work.weight.set_max(max);
  RowSelection<Segment, kFromProbs, kThreads>(work, segment).finish();
}

/// kProcessed: with logits processing, apart so that calls without it do not pay for it.
template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
__global__ void __launch_bounds__(kThreads, kThreads == 1024 ? 1 : 2)
    filter_rows_kernel(const __grid_constant__ RowsTask task,
                       const __grid_constant__ RowShape shape) {
  extern __shared__ uint4 dynamic[];
  __shared__ BlockMemory<kThreads> memory;
  // Before any exchange: all blocks of a row leave, or none does.
  if (task.noted != nullptr && task.noted[blockIdx.x / shape.blocks] >= 0) return;
  RowFilter<kType, kFromProbs, kThreads, kProcessed> filter(task, shape, memory, dynamic);
  const RowStatus status = filter.find_maximum();
  if (status != RowStatus::ok) {
    filter.work().fail(status);
  } else if (!filter.finish()) {
    select_over_row<kType, kFromProbs, kThreads, kProcessed>(task, shape, memory, dynamic,
                                                             filter.work().max, filter.work().base,
                                                             filter.work().exchanges);
  }
}

}  // namespace fairdraw::cuda
