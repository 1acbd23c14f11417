// Cuts of a whole row, where no list holds what is needed: any k, any ties, any distribution.
//
// Four levels of bins over the row's values at most (weight_bins.cuh), shared by its blocks, then
// one walk for the sum and the search of the drawn position. So the time is bounded by five walks
// for each of top_k and top_p, whatever the values. It is a path for rare rows, compiled apart, so
// that its registers and instructions do not burden the common ones.
#pragma once

#include "cuda/row_filter/row_walk.cuh"

namespace fairdraw::cuda {

template <class Segment, bool kFromProbs, int kThreads>
class RowSelection {
  using Work = RowWork<kFromProbs, kThreads>;
  static constexpr int kPerVector = Segment::kPerVector;

 public:
  /// `work`: of a row that is not greedy, with max, base, low = base and weight set.
  __device__ __forceinline__ RowSelection(Work& work, const Segment& segment)
      : work_(work), memory_(work.memory), segment_(segment) {}

  __device__ __forceinline__ void finish() {
    if (work_.top_k_on()) cut_to_top_k();
    if (work_.top_p_on()) cut_to_nucleus();
    ExactSum sum;
    segment_.for_each([&](const float(&x)[kPerVector], int position) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        const bool counts =
            work_.task.total_of_row ? x[j] >= work_.base : work_.kept(x[j], position + j);
        sum.add(counts ? work_.weight(x[j]) : 0.0F);
      }
    });
    const PartSums* sums = exchange_total(sum.value());
    const std::uint64_t total = work_.total_of(sums, &PartSums::total);
    if (!work_.draws()) {
      if (work_.cluster.rank == 0 && work_.thread == 0) work_.write_cut(total, -1);
      return;
    }
    std::uint64_t left = multiply_high(work_.word(), total);
    if (work_.owner_of(sums, left) != work_.cluster.rank) return;
    const int token = work_.locate(segment_, left, [&](float x, int position) {
      return work_.kept(x, position) ? integer_weight(work_.weight(x)) : std::uint64_t{0};
    });
    if (work_.thread == 0) work_.write_cut(total, token);
  }

 private:
  /// Sums of this thread's values to sums of the blocks; those of the warps stay in warp_sum[0].
  __device__ __forceinline__ const PartSums* exchange_total(std::uint64_t sum) {
    const std::uint64_t of_warp = warp_sum(sum);
    __syncthreads();
    if (work_.lane == 0) memory_.warp_sum[0][work_.warp] = of_warp;
    __syncthreads();
    PartSums mine{};
    mine.total = work_.block_sum(0);
    return work_.exchange(mine);
  }

  struct Selected {
    float value;          ///< -inf where everything measures less than the target
    std::uint64_t above;  ///< measure of what is larger
  };

  /// The largest of the survivors for which it and what is larger measure at least `target`.
  template <class Weigh>
  __device__ __forceinline__ Selected select(std::uint64_t target, Weigh&& weigh) {
    KeyRange range{unsigned_key(work_.low), unsigned_key(work_.max)};
    std::uint64_t above = 0;
#pragma unroll 1
    while (true) {  // at most four times: KeyRange
      __syncthreads();
      memory_.bins.template clear<kThreads>();
      __syncthreads();
      // Neighbours that fall into one bin are added at once: ties would wait for one another.
      int open_bin = -1;
      std::uint64_t sum = 0;
      segment_.for_each([&](const float(&x)[kPerVector], int position) {
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) {
          const std::uint32_t key = unsigned_key(x[j]);
          if (!range.holds(key) || !work_.kept(x[j], position + j)) continue;
          const int bin = range.bin_of(key);
          if (bin != open_bin) {
            if (sum > 0) memory_.bins.add_sum(open_bin, sum);
            open_bin = bin;
            sum = 0;
          }
          sum += weigh(x[j]);
        }
      });
      if (sum > 0) memory_.bins.add_sum(open_bin, sum);
      work_.cluster.sync();
      std::uint64_t mine = 0;
      if (work_.thread < kBins) {
        for (int block = 0; block < work_.cluster.blocks; ++block) {
          mine += work_.cluster.at(&memory_.bins, block)->sum(work_.thread);
        }
      }
      above = find_cut_bin<kThreads>(memory_, mine, above, target);
      const int bin = memory_.cut_bin;
      work_.cluster.sync();  // the bins have been read by all
      if (bin < 0) return {-INFINITY, above};
      range = range.of_bin(bin);
      if (range.single()) return {from_unsigned_key(range.low), above};
    }
  }

  __device__ __forceinline__ void cut_to_top_k() {
    const auto k = static_cast<std::uint64_t>(work_.parameters.top_k);
    const Selected cut = select(k, [](float) { return std::uint64_t{1}; });
    if (cut.value < work_.base) return;
    work_.low = cut.value;
    if (work_.task.tie_rule == TieRule::lowest_id) cut_ties(k - cut.above);
  }

  __device__ __forceinline__ void cut_to_nucleus() {
    const bool joint = work_.top_k_on() && work_.task.filter_order == FilterOrder::joint;
    ExactSum sum;
    segment_.for_each([&](const float(&x)[kPerVector], int position) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        const bool counts = joint ? x[j] >= work_.base : work_.kept(x[j], position + j);
        sum.add(counts ? work_.weight(x[j]) : 0.0F);
      }
    });
    const std::uint64_t mass = work_.total_of(exchange_total(sum.value()), &PartSums::total);
    const Selected cut = select(nucleus_target(work_.parameters.top_p, mass),
                                [&](float x) { return integer_weight(work_.weight(x)); });
    if (cut.value > work_.low) {
      work_.low = cut.value;
      work_.tie_end = work_.vocab;
    }
  }

  /// Of the row's values equal to low, only the first `ties_kept` stay.
  __device__ __forceinline__ void cut_ties(std::uint64_t ties_kept) {
    std::uint64_t ties = 0;
    segment_.for_each([&](const float(&x)[kPerVector], int) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) ties += x[j] == work_.low ? 1 : 0;
    });
    const PartSums* sums = exchange_total(ties);
    std::uint64_t left = ties_kept - 1;
    if (work_.owner_of(sums, left) == work_.cluster.rank) {
      const int position = work_.locate(
          segment_, left, [&](float x, int) { return std::uint64_t{x == work_.low ? 1U : 0U}; });
      if (work_.thread < work_.cluster.blocks) {
        *work_.cluster.at(&memory_.tie_position, work_.thread) = position;
      }
    }
    work_.cluster.sync();
    work_.tie_end = memory_.tie_position + 1;
  }

  Work& work_;
  BlockMemory<kThreads>& memory_;
  const Segment& segment_;
};

}  // namespace fairdraw::cuda
