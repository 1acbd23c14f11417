// From a row of logits or probabilities to its survivors, and to a token: one launch.
//
// (essay)
#pragma once

#include "list_finish.cuh"
#include "min_p.h"
#include "row_selection.cuh"

namespace fairdraw::cuda {

/// The sample's bins reach 32 octaves below the block's maximum.
inline constexpr float kBinsPerOctave = 16.0F;
/// Thread maxima that make the head, which is counted in full.
inline constexpr int kHeadSize = 96;
/// Half the width of a guessed bracket in standard deviations.
inline constexpr float kBracketDeviations = 3.5F;
/// Weights this many octaves below the maximum are 0 (fewer than kSmallestOctave, so that the
/// conversion of weights need not look; more than kWeightBits).
inline constexpr float kWeightlessOctaves = 50.0F;

template <DType kType, bool kFromProbs, int kThreads>
class RowFilter {
  using Segment = RowSegment<kType, kFromProbs, kThreads>;
  using Work = RowWork<kFromProbs, kThreads>;
  static constexpr int kPerVector = Segment::kPerVector;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr float kSmallestAllowed = Work::kSmallestAllowed;
  /// The sample looks at one value in four.
  static constexpr int kSampleStride = 4;

 public:
  __device__ __forceinline__ RowFilter(const RowsTask& task, const RowShape& shape,
                                       BlockMemory<kThreads>& memory, uint4* dynamic)
      : work_(task, shape.blocks, memory),
        memory_(memory),
        dynamic_(dynamic, shape, kThreads),
        segment_(task.rows, work_.row,
                 task.allowed.given()
                     ? task.allowed.data + work_.row * task.allowed.row_stride
                     : nullptr,
                 shape, work_.cluster.rank, dynamic),
        bulk_(shape.bulk_copies) {}

  /// Up to the row's maximum. The status, where it is decided; all blocks agree.
  __device__ __forceinline__ RowStatus find_maximum() {
    STAMP(0);
    work_.cluster.announce();
    if (work_.task.active.given() && work_.task.active.data[work_.row] == 0) {
      work_.cluster.await_all();
      return RowStatus::inactive;
    }
    std::uint64_t* loaded = &memory_.loaded[work_.warp];
    segment_.start_load(loaded, bulk_);
    typename Segment::Stream stream = segment_.open_stream(true);
    prepare();
    STAMP(1);
    const typename Segment::Found found = segment_.scan(
        stream, loaded, bulk_, [&](const float (&x)[kPerVector], float thread_max) {
          if (needs_sample_) take_sample(x, thread_max);
        });
    STAMP(2);
    thread_max_ = found.max;
    resident_max_ = found.resident_max;
    return share_maximum(found);
  }

  /// Of a row whose maximum is known and allowed. False where it needs a selection over the row.
  __device__ __forceinline__ bool finish() {
    if (greedy_) {
      finish_greedy();
      return true;
    }
    work_.low = work_.base = kSmallestAllowed;
    if (work_.parameters.min_p > 0.0F) {
      work_.base = work_.low = fmaxf(kSmallestAllowed, lowest_kept_by_min_p());
    }
    if (!work_.top_k_on() && !work_.top_p_on()) {
      finish_by_sum();
      return true;
    }
    bool row_mass = true;  // top_p is measured on the row
    if (work_.top_k_on()) {
      row_mass = work_.top_p_on() && work_.task.filter_order == FilterOrder::joint;
      // More would not be found among thread maxima.
      if (work_.parameters.top_k > kThreads * work_.cluster.blocks / 2) return false;
    } else {
      STAMP(13);
      if (!is_head_enough()) {
        const Bracket bracket = guess_nucleus();
        STAMP(14);
        if (bracket.low < head_end_) return finish_by_bracket(bracket);
      }
    }
    return finish_by_list(fmaxf(head_end_, work_.base), row_mass);
  }

  __device__ __forceinline__ Work& work() { return work_; }
  __device__ __forceinline__ const Segment& segment() const { return segment_; }

 private:
  // --- The maximum -------------------------------------------------------------------------------

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

  __device__ __forceinline__ RowStatus share_maximum(const typename Segment::Found& found) {
    const std::uint32_t trouble = found.raw_max != found.raw_max ? 3U
                                  : found.raw_max > FLT_MAX      ? 2U
                                  : found.negative               ? 1U
                                                                 : 0U;
    // One key for both: trouble stands above all values.
    const std::uint32_t key = trouble > 0 ? 0xfffffff0U + trouble : unsigned_key(thread_max_);
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
    const int wanted =
        ((work_.top_k_on() ? parameters.top_k : kHeadSize) + work_.cluster.blocks - 1) /
        work_.cluster.blocks;
    const bool in_fours = 8 * wanted <= kThreads;
    if (needs_head) {
      if (in_fours) {
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
    STAMP(3);
    if (greedy_) {
      if (thread_max_ == best) find_first(best);
      __syncthreads();
      mine.first = memory_.first;
    }
    if (needs_head) {
      const float tail = end_of_head(wanted, in_fours, best);
      mine.tail_key = unsigned_key(tail);
      if (needs_sample_) {
        mine.top = bin_of(best);
        count_head(tail);
        __syncthreads();
      }
    }
    STAMP(4);
    work_.cluster.await_all();
    if (work_.thread < work_.cluster.blocks) {
      *work_.cluster.at(&memory_.maximum[work_.cluster.rank], work_.thread) = mine;
    }
    if (needs_sample_) send_sample(mine.top);
    STAMP(5);
    work_.cluster.sync();
    STAMP(6);
    return meet_maxima();
  }

  /// Greedy rows: the first of the thread's values that equals the block's maximum.
  __device__ __forceinline__ void find_first(float best) {
    int first = INT_MAX;
    segment_.for_each([&](const float (&x)[kPerVector], int position) {
#pragma unroll
      for (int j = kPerVector - 1; j >= 0; --j) {
        if (x[j] == best) first = min(first, position + j);
      }
    });
    atomicMin(&memory_.first, first);
  }

  /// A value that at least `wanted` of the block's values reach, and not many more: two rounds of
  /// one pivot a warp, over the thread maxima, or over those of four threads where few are wanted.
  /// -inf where there are not that many.
  __device__ __forceinline__ float end_of_head(int wanted, bool in_fours, float most) {
    const std::uint32_t least =
        warp_min(work_.lane < kWarps ? memory_.warp_key[1][work_.lane] : 0xffffffffU);
    const int maxima = in_fours ? kWarps / 4 : kWarps;  // of each lane
    float low = from_unsigned_key(least);
    float step = (most - low) / static_cast<float>(kWarps);
    bool enough = true;
#pragma unroll 1
    for (int round = 0; round < 2; ++round) {
      const float pivot = low + step * static_cast<float>(work_.warp);
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
      low = low + step * static_cast<float>(last);
      step /= static_cast<float>(kWarps);
    }
    return enough ? low : -INFINITY;
  }

  /// What the blocks found, put together. The same in all blocks.
  __device__ __forceinline__ RowStatus meet_maxima() {
    const RowStatus invalid = check(work_.parameters);
    if (invalid != RowStatus::ok) return invalid;
    const bool there = work_.lane < work_.cluster.blocks;
    const std::uint32_t key = warp_max(there ? memory_.maximum[work_.lane].max_key : 0U);
    if (key > 0xfffffff0U) {
      return key == 0xfffffff3U   ? RowStatus::nan_input
             : key == 0xfffffff2U ? RowStatus::infinite_input
                                  : RowStatus::negative_probability;
    }
    work_.max = from_unsigned_key(key);
    if (!(work_.max >= kSmallestAllowed)) return RowStatus::no_allowed_token;
    work_.weight.set_max(work_.max);
    head_end_ =
        from_unsigned_key(warp_min(there ? memory_.maximum[work_.lane].tail_key : 0xffffffffU));
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

  // --- No filter, or min_p alone -----------------------------------------------------------------

  __device__ __forceinline__ void finish_by_sum() {
    const float low = work_.low;
    std::uint64_t sum = 0;
    if (__any_sync(kAllLanes, thread_max_ >= low)) {
      const float lowest = lowest_with_weight(low);
      ExactSum even;
      ExactSum odd;
      segment_.for_each([&](const float (&x)[kPerVector], int) {
#pragma unroll
        for (int j = 0; j < kPerVector; j += 2) {
          even.add(work_.weight(x[j], lowest));
          odd.add(work_.weight(x[j + 1], lowest));
        }
      });
      sum = even.value() + odd.value();
    }
    STAMP(7);
    sum = warp_sum(sum);
    if (work_.lane == 0) memory_.warp_sum[0][work_.warp] = sum;
    __syncthreads();
    PartSums mine{};
    mine.total = work_.block_sum(0);
    STAMP(8);
    const PartSums* sums = work_.exchange(mine);
    STAMP(9);
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

  /// A value below which nothing weighs, or `low` where that is larger.
  __device__ __forceinline__ float lowest_with_weight(float low) const {
    if constexpr (kFromProbs) return low;
    return fmaxf(low, work_.max - kWeightlessOctaves / work_.weight.scale);
  }

  // --- A list of the largest values, finished by the first block ---------------------------------

  /// Lists the values >= `from`. The row's weight is summed too where `row_mass`. False where the
  /// list does not hold all that is needed; all blocks agree on that.
  __device__ __forceinline__ bool finish_by_list(float from, bool row_mass) {
    int hits = 0;  // of the warp
    if (row_mass) {
      hits = list_and_sum(from);
    } else {
      const unsigned threads = __ballot_sync(kAllLanes, thread_max_ >= from);
      if (__popc(threads) > kFewThreads) {
        segment_.for_each(
            [&](const float (&x)[kPerVector], int position) { stage(x, position, from, hits); },
            thread_max_ >= from);
      } else if (threads != 0) {
        hits = stage_threads(threads, from);
      }
    }
    STAMP(7);
    if (work_.lane == 0) memory_.warp_count[0][work_.warp] = hits;
    __syncthreads();
    const int of_warps = warp_inclusive_sum(work_.lane < kWarps ? memory_.warp_count[0][work_.lane] : 0);
    PartSums mine{};
    const int count = __shfl_sync(kAllLanes, of_warps, kWarps - 1);
    mine.count = count;
    const int before = __shfl_sync(kAllLanes, of_warps, work_.warp) - hits;
    const int room = dynamic_.list.capacity / work_.cluster.blocks;
    if (count <= room && hits > 0) send_list(from, hits, work_.cluster.rank * room + before);
    if (row_mass) {
      mine.total = work_.block_sum(0);
      mine.inside = work_.block_sum(1);
    }
    STAMP(8);
    const PartSums* sums = work_.exchange(mine);
    STAMP(9);
    if (__any_sync(kAllLanes, work_.lane < work_.cluster.blocks && sums[work_.lane].count > room)) {
      return false;
    }
    std::uint64_t mass = 0;
    if (row_mass) {
      mass = work_.total_of(sums, &PartSums::total);
      // Jointly, what top_k keeps may hold less than the nucleus: then all of it stays.
      if (!work_.top_k_on() && work_.total_of(sums, &PartSums::inside) <
                                   nucleus_target(work_.parameters.top_p, mass)) {
        return false;
      }
    }
    if (work_.cluster.rank == 0) {
      ListFinish<kFromProbs, kThreads>(work_, dynamic_.list, word_)
          .finish(sums, room, from, row_mass, mass);
    }
    return true;
  }

  /// Notes which values of a vector are listed: their numbers in the warp, in token-id order, in
  /// the warp's part of the scratch. More than fit are counted only.
  __device__ __forceinline__ void stage(const float (&x)[kPerVector], int position, float from,
                                        int& hits) {
    unsigned reached[kPerVector];
    unsigned any = 0;
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      reached[j] = __ballot_sync(kAllLanes, x[j] >= from);
      any |= reached[j];
    }
    if (any == 0) return;
    const unsigned before_me = (1U << work_.lane) - 1U;
    int place = hits;
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) place += __popc(reached[j] & before_me);
    std::uint16_t* staged = staged_of_warp();
    const int number = position - segment_.first_position(work_.warp);
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      if (x[j] >= from) {
        if (place < kStagedPerWarp) staged[place] = static_cast<std::uint16_t>(number + j);
        ++place;
      }
      hits += __popc(reached[j]);
    }
  }

  /// The same for few threads, given as bits: the lanes share their vectors. Then the numbers are
  /// sorted, by counting.
  __device__ __forceinline__ int stage_threads(unsigned threads, float from) {
    std::uint16_t* staged = staged_of_warp();
    int hits = 0;
#pragma unroll 1
    for (; threads != 0; threads &= threads - 1) {
      const int owner = __ffs(static_cast<int>(threads)) - 1;
#pragma unroll 1
      for (int first = 0; first < segment_.steps(); first += kWarp) {
        const int step = first + work_.lane;
        float x[kPerVector];
        segment_.read_of_lane(owner, step, x);
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) {
          const unsigned reached = __ballot_sync(kAllLanes, x[j] >= from);
          if (x[j] >= from) {
            const int place = hits + __popc(reached & ((1U << work_.lane) - 1U));
            if (place < kStagedPerWarp) {
              staged[place] =
                  static_cast<std::uint16_t>((step * kWarp + owner) * kPerVector + j);
            }
          }
          hits += __popc(reached);
        }
      }
    }
    __syncwarp();
    if (hits > kWarp) return hits > kStagedPerWarp ? hits : sort_staged(hits);
    const int mine = work_.lane < hits ? staged[work_.lane] : 0;
    int before = 0;
    for (int i = 0; i < hits; ++i) before += __shfl_sync(kAllLanes, mine, i) < mine ? 1 : 0;
    __syncwarp();
    if (work_.lane < hits) staged[before] = static_cast<std::uint16_t>(mine);
    return hits;
  }

  /// Sorts more numbers than the warp has lanes.
  __device__ __forceinline__ int sort_staged(int hits) {
    std::uint16_t* staged = staged_of_warp();
    constexpr int kPerLane = kStagedPerWarp / kWarp;
    int number[kPerLane];
    int before[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int place = i * kWarp + work_.lane;
      number[i] = place < hits ? staged[place] : INT_MAX;
      before[i] = 0;
    }
#pragma unroll 1
    for (int other = 0; other < hits; ++other) {
      const int that = staged[other];
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) before[i] += that < number[i] ? 1 : 0;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (number[i] != INT_MAX) staged[before[i]] = static_cast<std::uint16_t>(number[i]);
    }
    return hits;
  }

  /// stage() for the whole segment, with the row's weight and the list's; returns the warp's hits.
  __device__ __forceinline__ int list_and_sum(float from) {
    int hits = 0;
    ExactSum total;
    ExactSum listed;
    const float lowest = lowest_with_weight(work_.base);
    segment_.for_each([&](const float (&x)[kPerVector], int position) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        const float v = work_.weight(x[j], lowest);
        total.add(v);
        if (x[j] >= from) listed.add(v);
      }
      stage(x, position, from, hits);
    });
    const std::uint64_t warp_total = warp_sum(total.value());
    const std::uint64_t warp_listed = warp_sum(listed.value());
    if (work_.lane == 0) {
      memory_.warp_sum[0][work_.warp] = warp_total;
      memory_.warp_sum[1][work_.warp] = warp_listed;
    }
    return hits;
  }

  /// Sends this warp's listed values to the first block, from `slot` on.
  __device__ __forceinline__ void send_list(float from, int hits, int slot) {
    float* values = work_.cluster.at(dynamic_.list.value, 0) + slot;
    std::int32_t* ids = work_.cluster.at(dynamic_.list.id, 0) + slot;
    if (hits <= kStagedPerWarp) {
      __syncwarp();
      const std::uint16_t* staged = staged_of_warp();
      const int first = segment_.first_position(work_.warp);
      for (int i = work_.lane; i < hits; i += kWarp) {
        const int number = staged[i];
        values[i] = segment_.value(work_.warp, number);
        ids[i] = first + number;
      }
      return;
    }
    int sent = 0;
    segment_.for_each([&](const float (&x)[kPerVector], int position) {
      unsigned mine = 0;
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) mine |= x[j] >= from ? 1U << j : 0U;
      const int inclusive = warp_inclusive_sum(__popc(mine));
      int at = sent + inclusive - __popc(mine);
#pragma unroll 1
      for (int j = 0; mine != 0; ++j, mine >>= 1) {
        if ((mine & 1U) == 0) continue;
        values[at] = x[0];
#pragma unroll
        for (int i = 1; i < kPerVector; ++i) {
          if (i == j) values[at] = x[i];
        }
        ids[at++] = position + j;
      }
      sent += __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    });
  }

  /// With more threads that have listed values, walking over all vectors is faster.
  static constexpr int kFewThreads = 8;
  /// A warp's part of the scratch.
  __device__ __forceinline__ std::uint16_t* staged_of_warp() const {
    return reinterpret_cast<std::uint16_t*>(dynamic_.scratch) + work_.warp * kStagedPerWarp;
  }

  // --- The nucleus of a whole row ----------------------------------------------------------------

  /// Bin of a value, on a scale that does not depend on the maximum: larger values, larger bins.
  __device__ __forceinline__ int bin_of(float x) const {
    // The conversion saturates.
    return static_cast<int>(floorf(work_.weight.octave(x) * kBinsPerOctave));
  }
  __device__ __forceinline__ static int ring_place(int bin) {
    return bin & (SampleRing::kRing - 1);
  }

  /// Counts one value in four, as far as they matter beside the thread's largest so far. Values that
  /// lie further below the row's largest than the ring is long are counted at a wrong place; then
  /// the head is enough (is_head_enough), and the sample is not looked at.
  __device__ __forceinline__ void take_sample(const float (&x)[kPerVector], float thread_max) {
    const float lowest =
        work_.weight.octave(thread_max) - static_cast<float>(kSampleBins) / kBinsPerOctave;
#pragma unroll
    for (int j = 0; j < kPerVector; j += kSampleStride) {
      if (x[j] >= kSmallestAllowed && work_.weight.octave(x[j]) >= lowest) {
        atomicAdd(&dynamic_.ring->sampled[ring_place(bin_of(x[j]))], 1U);
      }
    }
  }

  /// Counts the values above the head's end, and takes them out of the sample. Those are of few
  /// threads, whose vectors the lanes of their warp share. Of the steps that are not resident, and
  /// so not sampled, a thread's largest value is enough.
  __device__ __forceinline__ void count_head(float tail) {
    if (thread_max_ > tail && thread_max_ > resident_max_) {
      atomicAdd(&dynamic_.ring->head[ring_place(bin_of(thread_max_))], 1U);
    }
    unsigned threads = __ballot_sync(kAllLanes, resident_max_ > tail);
#pragma unroll 1
    for (; threads != 0; threads &= threads - 1) {
      const int owner = __ffs(static_cast<int>(threads)) - 1;
#pragma unroll 1
      for (int step = work_.lane; step < segment_.resident(); step += kWarp) {
        float x[kPerVector];
        segment_.read_of_lane(owner, step, x);
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) {
          if (x[j] > tail) {
            const int place = ring_place(bin_of(x[j]));
            atomicAdd(&dynamic_.ring->head[place], 1U);
            if (j % kSampleStride == 0) atomicSub(&dynamic_.ring->sampled[place], 1U);
          }
        }
      }
    }
  }

  /// Gives the block's bins, from its largest value's down, to all blocks: 16 bits for the sampled
  /// and for the head.
  __device__ __forceinline__ void send_sample(int top) {
    constexpr int kQuads = kSampleBins / 4;
    for (int i = work_.thread; i < kQuads * work_.cluster.blocks; i += kThreads) {
      const int quad = i % kQuads;
      std::uint32_t packed[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int place = ring_place(top - 4 * quad - j);
        packed[j] = min(dynamic_.ring->sampled[place], 0xffffU) |
                    (min(dynamic_.ring->head[place], 0xffffU) << 16);
      }
      auto* bins = reinterpret_cast<uint4*>(dynamic_.scratch) + work_.cluster.rank * kQuads + quad;
      *work_.cluster.at(bins, i / kQuads) =
          make_uint4(packed[0], packed[1], packed[2], packed[3]);
    }
  }

  /// True where the head holds the nucleus whatever lies below it: even if all values were just
  /// below its end, they would weigh less than a part in 2^-12 of what top_p leaves out.
  __device__ __forceinline__ bool is_head_enough() const {
    const float tail = work_.weight.octave(head_end_) - work_.weight.octave(work_.max);
    const float below = static_cast<float>(work_.vocab) * exp2f(tail);
    return below < (1.0F - work_.parameters.top_p) * 0x1p-12F;
  }

  struct Bracket {
    float low, high;
  };

  /// Where the nucleus probably ends, from the sample. The same in all blocks: they do the same
  /// operations on the same numbers.
  __device__ __forceinline__ Bracket guess_nucleus() {
    const float max_octave = work_.weight.octave(work_.max);
    const int top_bin = bin_of(work_.max);
    const auto top = static_cast<float>(top_bin);
    const auto bin = static_cast<float>(work_.thread);
    float sampled = 0;
    float head = 0;
    if (work_.thread < kSampleBins) {
#pragma unroll 4
      for (int block = 0; block < work_.cluster.blocks; ++block) {
        // As unsigned numbers: a block whose values lie far below has no bin here.
        const auto shift =
            static_cast<std::uint32_t>(top_bin) - static_cast<std::uint32_t>(memory_.maximum[block].top);
        const auto place = static_cast<std::uint32_t>(work_.thread) - shift;
        if (place >= static_cast<std::uint32_t>(kSampleBins)) continue;
        const std::uint32_t packed = dynamic_.scratch[block * kSampleBins + static_cast<int>(place)];
        sampled += static_cast<float>(packed & 0xffffU);
        head += static_cast<float>(packed >> 16);
      }
    }
    const float top_p = work_.parameters.top_p;
    const float octave = (top - bin + 0.5F) / kBinsPerOctave - max_octave;
    const float weight = exp2f(fminf(octave, 0.0F));
    // One value stands for this many: the sample looks at one in four of the resident steps.
    const float stands_for = static_cast<float>(kSampleStride * segment_.steps()) /
                             static_cast<float>(::max(segment_.resident(), 1));
    const float mass = (sampled * stands_for + head) * weight;
    float total = 0;
    const float inclusive = block_inclusive_sum<kThreads>(mass, total, memory_.float_slots[0]);
    const float target = top_p * total;
    // What is decided is W(>= v) - p W: values above v count 1 - p in it, the others -p.
    const float share = inclusive < target ? 1.0F - top_p : top_p;
    const float one_value = stands_for * weight * share;
    const float not_sampled = (stands_for - 1.0F) / stands_for;
    const float square_of_warp = warp_sum(sampled * one_value * one_value * not_sampled);
    if (work_.lane == 0) memory_.float_slots[1][work_.warp] = square_of_warp;
    if (work_.thread < 2) memory_.edge[work_.thread] = work_.thread == 0 ? INFINITY : -INFINITY;
    __syncthreads();
    const float variance = warp_sum(work_.lane < kWarps ? memory_.float_slots[1][work_.lane] : 0.0F);
    const float margin = kBracketDeviations * sqrtf(variance) + total * 0x1p-11F;
    const float before = inclusive - mass;
    const auto edge_at = [&](float crossing) {
      const float part = fminf(fmaxf((crossing - before) / mass, 0.0F), 1.0F);
      return work_.weight.value_at((top - bin + 1.0F - part) / kBinsPerOctave);
    };
    const float high = target - margin;
    const float low = target + margin;
    if (before < high && inclusive >= high) memory_.edge[0] = edge_at(high);
    if (before < low && inclusive >= low) memory_.edge[1] = edge_at(low);
    __syncthreads();
    return {fmaxf(memory_.edge[1], work_.base), fmaxf(memory_.edge[0], work_.base)};
  }

  /// False where the guess did not hold; all blocks agree on that.
  __device__ __forceinline__ bool finish_by_bracket(const Bracket& bracket) {
    // One walk: the weight above the bracket, the rest, and a bit for each of the last 64 values
    // that says whether it lies in it.
    ExactSum above;
    ExactSum rest;
    std::uint64_t inside_bits = 0;
    std::uint32_t lost = 0;  // bits of earlier values
    const float lowest = lowest_with_weight(work_.base);
    segment_.for_each([&](const float (&x)[kPerVector], int) {
      std::uint32_t bits = 0;
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        const float v = work_.weight(x[j], lowest);
        if (x[j] > bracket.high) {
          above.add(v);
        } else {
          rest.add(v);
        }
        if (x[j] >= bracket.low && x[j] <= bracket.high) bits |= 1U << j;
      }
      lost |= static_cast<std::uint32_t>(inside_bits) & ((1U << kPerVector) - 1U);
      inside_bits = (inside_bits >> kPerVector) | (static_cast<std::uint64_t>(bits) << (64 - kPerVector));
    });
    STAMP(16);
    const auto for_each_inside = [&](auto&& visit) {
      if (lost == 0) {
        // Bit 0 is the first value of the last 64 / kPerVector steps.
        const int first_step = segment_.steps() - 64 / kPerVector;
        std::uint64_t left = inside_bits;
        constexpr int kAtOnce = 4;
#pragma unroll 1
        while (left != 0) {
          float x[kAtOnce];
          bool there[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            there[i] = left != 0;
            x[i] = 0;
            if (there[i]) {
              const int bit = __ffsll(static_cast<long long>(left)) - 1;
              left &= left - 1;
              const int step = first_step + bit / kPerVector;
              x[i] = segment_.value(work_.warp, (step * kWarp + work_.lane) * kPerVector +
                                                    bit % kPerVector);
            }
          }
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            if (there[i]) visit(x[i]);
          }
        }
        return;
      }
#pragma unroll 1
      for (int step = 0; step < segment_.steps(); ++step) {
        float x[kPerVector];
        segment_.read(work_.warp, step, x);
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) {
          if (x[j] >= bracket.low && x[j] <= bracket.high) visit(x[j]);
        }
      }
    };
    int hits = __popcll(inside_bits);
    if (lost != 0) {
      hits = 0;
      for_each_inside([&](float) { ++hits; });
    }
    int count = 0;
    const int inclusive = block_inclusive_sum<kThreads>(hits, count, memory_.warp_count[0]);
    const int room = 2 * dynamic_.list.capacity / work_.cluster.blocks;
    std::uint64_t inside = 0;
    {
      // Values alone: they take the ids' room too.
      float* values = work_.cluster.at(dynamic_.list.value, 0) + work_.cluster.rank * room;
      int slot = inclusive - hits;
      for_each_inside([&](float x) {
        inside += integer_weight(work_.weight(x));
        if (slot < room) values[slot] = x;
        ++slot;
      });
    }
    const std::uint64_t warp_above = warp_sum(above.value());
    const std::uint64_t warp_rest = warp_sum(rest.value());
    inside = warp_sum(inside);
    if (work_.lane == 0) {
      memory_.warp_sum[0][work_.warp] = warp_above;  // stays until the end
      memory_.warp_sum[1][work_.warp] = warp_rest;
      memory_.warp_sum[2][work_.warp] = inside;
    }
    __syncthreads();
    PartSums mine{};
    if (work_.warp == 0) {
      mine.above = work_.block_sum(0);
      mine.total = mine.above + work_.block_sum(1);
      mine.inside = work_.block_sum(2);
      mine.count = count;
    }
    STAMP(17);
    const PartSums* sums = work_.exchange(mine);
    STAMP(18);
    const std::uint64_t mass = work_.total_of(sums, &PartSums::total);
    const std::uint64_t all_above = work_.total_of(sums, &PartSums::above);
    const std::uint64_t all_inside = work_.total_of(sums, &PartSums::inside);
    const std::uint64_t target = nucleus_target(work_.parameters.top_p, mass);
    const bool too_long =
        __any_sync(kAllLanes, work_.lane < work_.cluster.blocks && sums[work_.lane].count > room);
    if (too_long || all_above >= target || all_above + all_inside < target) return false;

    if (work_.cluster.rank == 0) decide_nucleus(sums, bracket, target - all_above, room);
    STAMP(19);
    work_.cluster.sync();
    STAMP(20);
    const Verdict verdict = memory_.verdict;
    work_.low = verdict.low;
    if (!work_.draws() || verdict.block != work_.cluster.rank) return true;
    std::uint64_t kept_inside = 0;
    for_each_inside([&](float x) {
      if (x >= verdict.low) kept_inside += integer_weight(work_.weight(x));
    });
    kept_inside = warp_sum(kept_inside);
    if (work_.lane == 0) memory_.warp_sum[0][work_.warp] += kept_inside;
    __syncthreads();
    STAMP(21);
    const int token = work_.locate(segment_, verdict.remaining, [&](float x, int) {
      return x >= verdict.low ? integer_weight(work_.weight(x)) : std::uint64_t{0};
    });
    if (work_.thread == 0) work_.write_cut(verdict.total, token);
    return true;
  }

  /// The first block: the cut in the listed bracket, and which block draws.
  __device__ __forceinline__ void decide_nucleus(const PartSums* sums, const Bracket& bracket,
                                                 std::uint64_t target, int room) {
    const KeyRange range{unsigned_key(bracket.low), unsigned_key(fminf(bracket.high, work_.max))};
    const auto cut = ListFinish<kFromProbs, kThreads>(work_, dynamic_.list, word_)
                         .cut_nucleus(sums, room, range, target);
    if (work_.warp != 0) return;
    const bool there = work_.lane < work_.cluster.blocks;
    const std::uint64_t weight = there ? sums[work_.lane].above + cut.weight_of_block : 0;
    const std::uint64_t inclusive = warp_inclusive_sum(weight);
    const std::uint64_t total = __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    const std::uint64_t left = multiply_high(word_, total);
    const unsigned beyond = __ballot_sync(kAllLanes, inclusive > left);
    const int drawer = __ffs(static_cast<int>(beyond)) - 1;
    const std::uint64_t before = __shfl_sync(kAllLanes, inclusive - weight, drawer);
    if (there) {
      *work_.cluster.at(&memory_.verdict, work_.lane) = {total, left - before, cut.low, drawer};
    }
    if (work_.lane == 0 && !work_.draws()) {
      work_.low = cut.low;
      work_.write_cut(total, -1);
    }
  }

  Work work_;
  BlockMemory<kThreads>& memory_;
  DynamicMemory dynamic_;
  Segment segment_;
  bool bulk_;
  bool greedy_ = false, needs_sample_ = false;
  float min_p_octaves_ = 0;
  std::uint64_t word_ = 0;
  float thread_max_ = 0, resident_max_ = 0;
  float head_end_ = 0;  ///< at least as many values as asked for reach it; -inf: all
};

/// Rows that need a selection over the row: the state is made anew from a few numbers, so that the
/// common ways do not keep it for this one.
template <DType kType, bool kFromProbs, int kThreads>
__device__ __noinline__ void select_over_row(const RowsTask& task, const RowShape& shape,
                                             BlockMemory<kThreads>& memory, uint4* dynamic,
                                             float max, float base, int exchanges) {
  using Segment = RowSegment<kType, kFromProbs, kThreads>;
  RowWork<kFromProbs, kThreads> work(task, shape.blocks, memory);
  const Segment segment(
      task.rows, work.row,
      task.allowed.given() ? task.allowed.data + work.row * task.allowed.row_stride : nullptr,
      shape, work.cluster.rank, dynamic);
  work.max = max;
  work.base = work.low = base;
  work.exchanges = exchanges;
  work.weight = typename RowWork<kFromProbs, kThreads>::Weight(work.parameters.temperature);
  work.weight.set_max(max);
  RowSelection<Segment, kFromProbs, kThreads>(work, segment).finish();
}

template <DType kType, bool kFromProbs, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == 1024 ? 1 : 2)
    filter_rows_kernel(const __grid_constant__ RowsTask task,
                       const __grid_constant__ RowShape shape) {
  extern __shared__ uint4 dynamic[];
  __shared__ BlockMemory<kThreads> memory;
  RowFilter<kType, kFromProbs, kThreads> filter(task, shape, memory, dynamic);
  const RowStatus status = filter.find_maximum();
  if (status != RowStatus::ok) {
    filter.work().fail(status);
  } else if (!filter.finish()) {
    select_over_row<kType, kFromProbs, kThreads>(task, shape, memory, dynamic, filter.work().max,
                                                 filter.work().base, filter.work().exchanges);
  }
}

}  // namespace fairdraw::cuda
