// The nucleus of a whole row: where top_p cuts, when a list of the largest values may not hold it.
//
// The threshold is the largest value v whose weight W(>= v) reaches ceil(p W). W needs every weight
// once. So that this one walk also finds v, a bracket of values is guessed before it: the walk sums
// the weight above the bracket and the rest, and marks what lies inside. If the target lies between
// the weight above and that with the inside, v is one of the marked values: they are sent to the
// first block, which finds v exactly, sums each block's part of the nucleus, and says which block
// draws. A guess that fails costs a selection over the row (row_selection.cuh), never a wrong
// answer.
//
// The guess: while the row comes, one value in four is counted by octave, in bins on a scale that
// does not depend on the maximum, so that no warp waits for another. The head, some hundred values
// that thread maxima show, is counted in full: no sample has to catch the few values that may hold
// most of the weight. All blocks send their bins to all, and each computes the same bracket: where
// the estimated weight crosses p, kGpuBracketDeviations standard deviations of W(>= v) - p W to
// each side.
#pragma once

#include "cuda/row_filter/row_lists.cuh"

namespace fairdraw::cuda {

template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
class RowNuclei : public RowLists<kType, kFromProbs, kThreads, kProcessed> {
 public:
  using Base = RowLists<kType, kFromProbs, kThreads, kProcessed>;
  using Base::Base;
  using Base::kPerVector;
  using Base::kSmallestAllowed;
  using Base::kWarps;
  using typename Base::Segment;
  using typename Base::Work;

 protected:
  using Base::dynamic_;
  using Base::head_threshold_;
  using Base::lowest_with_weight;
  using Base::memory_;
  using Base::segment_;
  using Base::streamed_max_;
  using Base::thread_max_;
  using Base::word_;
  using Base::work_;

  /// Bin of a value, on a scale that does not depend on the maximum: larger values, larger bins.
  __device__ __forceinline__ int bin_of(float x) const {
    // The conversion saturates.
    return static_cast<int>(floorf(work_.weight.octave(x) * kBinsPerOctave));
  }
  __device__ __forceinline__ static int ring_place(int bin) {
    return bin & (SampleRing::kRing - 1);
  }

  /// Counts one value in four, as far as they matter against the thread's largest so far. Values
  /// that lie further below the row's largest than the ring is long are counted at a wrong place;
  /// then the head is enough (head_contains_nucleus), and the sample is not used.
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
  /// threads, whose vectors the lanes of their warp share.
  __device__ __forceinline__ void count_head(float tail) {
    if constexpr (kFromProbs) tail = fmaxf(tail, 0.0F);  // absent values are 0
    unsigned threads = __ballot_sync(kAllLanes, thread_max_ > tail);
    const unsigned streamed = __ballot_sync(kAllLanes, streamed_max_ > tail);
#pragma unroll 1
    for (; threads != 0; threads &= threads - 1) {
      const int owner = __ffs(static_cast<int>(threads)) - 1;
      // A value above the head's end among them was sampled by its thread: it has to be found.
      const int steps = ((streamed >> owner) & 1U) != 0 ? segment_.steps() : segment_.resident();
#pragma unroll 1
      for (int step = work_.lane; step < steps; step += kWarp) {
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
      *work_.cluster.at(bins, i / kQuads) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    }
  }

  /// True where the head holds the nucleus whatever lies below it: even if all values were just
  /// below its end, they would weigh less than a part in 2^-12 of what top_p leaves out.
  __device__ __forceinline__ bool head_contains_nucleus() const {
    const float tail = work_.weight.octave(head_threshold_) - work_.weight.octave(work_.max);
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
        const auto shift = static_cast<std::uint32_t>(top_bin) -
                           static_cast<std::uint32_t>(memory_.maximum[block].top);
        const auto place = static_cast<std::uint32_t>(work_.thread) - shift;
        if (place >= static_cast<std::uint32_t>(kSampleBins)) continue;
        const std::uint32_t packed =
            dynamic_.scratch[block * kSampleBins + static_cast<int>(place)];
        sampled += static_cast<float>(packed & 0xffffU);
        head += static_cast<float>(packed >> 16);
      }
    }
    const float top_p = work_.parameters.top_p;
    const float octave = (top - bin + 0.5F) / kBinsPerOctave - max_octave;
    const float weight = exp2f(fminf(octave, 0.0F));
    constexpr float kStandsFor = kSampleStride;
    const float mass = (sampled * kStandsFor + head) * weight;
    float total = 0;
    const float inclusive = block_inclusive_sum<kThreads>(mass, total, memory_.float_slots[0]);
    const float target = top_p * total;
    // What is decided is W(>= v) - p W: values above v count 1 - p in it, the others -p.
    const float share = inclusive < target ? 1.0F - top_p : top_p;
    const float one_value = kStandsFor * weight * share;
    const float not_sampled = (kStandsFor - 1.0F) / kStandsFor;
    const float square_of_warp = warp_sum(sampled * one_value * one_value * not_sampled);
    if (work_.lane == 0) memory_.float_slots[1][work_.warp] = square_of_warp;
    if (work_.thread < 2) memory_.edge[work_.thread] = work_.thread == 0 ? 0U : 0xffffffffU;
    __syncthreads();
    const float variance =
        warp_sum(work_.lane < kWarps ? memory_.float_slots[1][work_.lane] : 0.0F);
    const float margin = kGpuBracketDeviations * sqrtf(variance) + total * 0x1p-11F;
    const float before = inclusive - mass;
    const auto edge_at = [&](float crossing) {
      const float part = fminf(fmaxf((crossing - before) / mass, 0.0F), 1.0F);
      return work_.weight.value_at((top - bin + 1.0F - part) / kBinsPerOctave);
    };
    const float high = target - margin;
    const float low = target + margin;
    // Rounding may show a crossing in two threads, or in none: the wider edge, whoever comes first.
    if (before < high && inclusive >= high) {
      atomicMax(&memory_.edge[0], unsigned_key(edge_at(high)));
    }
    if (before < low && inclusive >= low) {
      atomicMin(&memory_.edge[1], unsigned_key(edge_at(low)));
    }
    __syncthreads();
    const std::uint32_t top_edge = memory_.edge[0];
    const std::uint32_t low_edge = memory_.edge[1];
    return {low_edge == 0xffffffffU ? work_.base : fmaxf(from_unsigned_key(low_edge), work_.base),
            top_edge == 0U ? INFINITY : fmaxf(from_unsigned_key(top_edge), work_.base)};
  }

  /// False where the guess did not hold; all blocks agree on that.
  __device__ __forceinline__ bool finish_by_bracket(const Bracket& bracket) {
    // One walk: the weight above the bracket, the rest, and a bit for each of the last 128 values
    // that says whether it lies in it.
    ExactSum above;
    ExactSum rest;
    std::uint64_t inside_early = 0;
    std::uint64_t inside_late = 0;
    std::uint32_t lost = 0;  // bits of values before those
    const float lowest = lowest_with_weight(work_.base);
    segment_.for_each([&](const float(&x)[kPerVector], int) {
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
      constexpr int kKept = 64 - kPerVector;
      lost |= static_cast<std::uint32_t>(inside_early) & ((1U << kPerVector) - 1U);
      inside_early = (inside_early >> kPerVector) | (inside_late << kKept);
      inside_late = (inside_late >> kPerVector) | (static_cast<std::uint64_t>(bits) << kKept);
    });
    const auto for_each_inside = [&](auto&& visit) {
      if (lost == 0) {
        // Bit 0 is the first value of the last 128 / kPerVector steps.
        const int first_step = segment_.steps() - 128 / kPerVector;
        std::uint64_t early = inside_early;
        std::uint64_t late = inside_late;
        constexpr int kAtOnce = 4;
#pragma unroll 1
        while ((early | late) != 0) {
          float x[kAtOnce];
          bool there[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            there[i] = (early | late) != 0;
            x[i] = 0;
            if (there[i]) {
              int bit = 0;
              if (early != 0) {
                bit = __ffsll(static_cast<long long>(early)) - 1;
                early &= early - 1;
              } else {
                bit = __ffsll(static_cast<long long>(late)) + 63;
                late &= late - 1;
              }
              const int step = first_step + bit / kPerVector;
              x[i] = segment_.value(work_.warp,
                                    (step * kWarp + work_.lane) * kPerVector + bit % kPerVector);
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
    int hits = __popcll(inside_early) + __popcll(inside_late);
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
    const PartSums* sums = work_.exchange(mine);
    const std::uint64_t mass = work_.total_of(sums, &PartSums::total);
    const std::uint64_t all_above = work_.total_of(sums, &PartSums::above);
    const std::uint64_t all_inside = work_.total_of(sums, &PartSums::inside);
    const std::uint64_t target = nucleus_target(work_.parameters.top_p, mass);
    const bool too_long =
        __any_sync(kAllLanes, work_.lane < work_.cluster.blocks && sums[work_.lane].count > room);
    if (too_long || all_above >= target || all_above + all_inside < target) return false;

    if (work_.cluster.rank == 0) decide_nucleus(sums, bracket, target - all_above, room);
    work_.cluster.sync();
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
};

}  // namespace fairdraw::cuda
