// Filters of processed rows that need the whole row: top_n_sigma, the filters by probability, and
// those of chains, with adaptive_p (steps 8 and 9 of fairdraw/logits_processing.h).
//
// Contract. The block that edits a row calls apply_row_filters() after all edits are written and a
// barrier. A filter clears the allowed bits of the tokens that it drops, exactly those that it
// drops on the CPU. In a row that fails, for example because of NaN, the bits have no meaning.
//
// Algorithm and cost. Each word of allowed bits belongs to one warp, with a token per lane, so that
// a filter needs no barrier between its reads and its writes of bits. The row is read from the L2
// cache once for the largest logit, and by each filter once for the sums and once for the bits.
// typical_p, top_h, and top_k and top_p of a chain read it four times more, for the digits of their
// place, and add the weights to 256 bins in shared memory; xtc reads it once more. A single SM
// reads the row, so that top_n_sigma takes 0.18 ms for a row of 128256 logits, xtc 0.32 ms,
// typical_p 0.73 ms, top_h 1.19 ms, a chain of top_k, top_p and min_p 0.96 ms, and adaptive_p,
// which writes a logit for each token that is left, 0.33 ms (H200). 64 rows take 0.20, 0.34,
// 0.88, 1.24, 1.04 and 0.46 ms.
//
// The steps of a chain are a loop around one copy of each pass. With a copy of the sums for each
// filter, the spills of the function doubled, and typical_p took 0.81 ms.
//
// Determinism: all sums are sums of integers. The comparisons are those of the CPU, in double,
// without fused multiply-adds.
#pragma once

#include <math_constants.h>

#include <cstdint>

#include "common/processing_rules.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/read_value.cuh"
#include "cuda/device/shared_sums.cuh"
#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

/// Shared memory of the filters.
struct FilterMemory {
  BlockScratch<float> largest;
  BlockScratch<std::uint64_t> words;
  BlockScratch<uint128_t> sums;
  BlockScratch<double> farthest;
  uint128_t bins[PlaceSearch<WantedAmount>::kBins];
  uint128_t distance_bins[PlaceSearch<EntropyLimit>::kBins];
};

/// Row that a block has edited.
class EditedRow {
 public:
  __device__ EditedRow(const RowValues& logits, std::uint32_t* edited, float* values,
                       std::uint32_t* allowed, int vocab, FilterMemory& memory)
      : logits_(logits),
        edited_(edited),
        values_(values),
        allowed_(allowed),
        vocab_(vocab),
        memory_(memory) {}

  /// Applies the filters that are on, and then writes the share of the entropy to `share`, if the
  /// row's temperature follows it.
  __device__ void apply(const ProcessingParameters& parameters, double* share) {
    if (!top_n_sigma_is_on(parameters.top_n_sigma) && !parameters.filters.are_on()) return;
    float largest = -CUDART_INF_F;
    each_logit<kCheap>([&](int, float x) { largest = x > largest ? x : largest; });
    largest_ = reduce_block(largest, memory_.largest, Maximum());
    if (!is_finite(largest_)) return;  // either no token is allowed, or the row fails
    const double of_row = apply_filters(parameters.filters, parameters.top_n_sigma, *this);
    if (share != nullptr && threadIdx.x == 0) *share = of_row;
  }

  // --- Row of apply_filters() --------------------------------------------------------------------

  __device__ ProbabilitySums sums() {
    const TokenScale scale(largest_, temperature_);
    ProbabilitySums sums;
    each_logit<kDear>([&](int, float x) {
      if (x != -CUDART_INF_F) sums.add(scale.weigh(x));
    });
    for (uint128_t* sum : {&sums.weights, &sums.squares, &sums.distances}) {
      *sum = reduce_block(*sum, memory_.sums, Add());
    }
    return sums;
  }

  __device__ std::uint64_t tokens() {
    std::uint64_t tokens = 0;
    each_logit<kCheap>([&](int, float x) { tokens += x != -CUDART_INF_F ? 1 : 0; });
    return reduce_block(tokens, memory_.words, Add());
  }

  __device__ double largest_weight() const {
    return TokenScale(largest_, temperature_).largest_weight();
  }
  __device__ void set_temperature(float temperature) { temperature_ = temperature; }

  template <class Order, class Limit>
  __device__ std::uint32_t find(const Order& order, PlaceSearch<Limit> search) {
    using Search = PlaceSearch<Limit>;
    const TokenScale scale(largest_, temperature_);
    for (int digit = 0; digit < Search::kDigits; ++digit) {
      for (std::uint32_t bin = threadIdx.x; bin < Search::kBins; bin += blockDim.x) {
        memory_.bins[bin] = 0;
        if (Search::kNeedsDistances) memory_.distance_bins[bin] = 0;
      }
      __syncthreads();
      each_logit<kDear>([&](int, float x) {
        std::uint32_t bin = Search::kNoBin;
        std::uint64_t amount = 0;
        uint128_t distance = 0;
        if (x != -CUDART_INF_F) {
          const WeighedToken token = scale.weigh(x);
          amount = order.amount(token);
          if (amount > 0) bin = search.bin_of(order.place(token));
          if (Search::kNeedsDistances) distance = token.weighted_distance();
        }
        add_of_warp(memory_.bins, Search::kBins, static_cast<int>(bin), amount);
        if constexpr (Search::kNeedsDistances) {
          add_of_warp(memory_.distance_bins, Search::kBins, static_cast<int>(bin), distance);
        }
      });
      __syncthreads();
      search.choose([this](std::uint32_t bin) { return memory_.bins[bin]; },
                    [this](std::uint32_t bin) { return memory_.distance_bins[bin]; });
      __syncthreads();  // the next digit clears the bins
    }
    return search.place();
  }

  __device__ double farthest(const KeptTokens& kept) {
    const TokenScale scale(largest_, temperature_);
    double distance = 0.0;
    each_logit<kDear>([&](int, float x) {
      if (x == -CUDART_INF_F) return;
      const WeighedToken token = scale.weigh(x);
      if (kept.keeps(token) && token.distance > distance) distance = token.distance;
    });
    return reduce_block(distance, memory_.farthest, Maximum());
  }

  template <class Kept>
  __device__ void keep(const Kept& kept) {
    const TokenScale scale(largest_, temperature_);
    const float largest = keep_if<kDear>([&](float x) { return kept.keeps(scale.weigh(x)); });
    largest_ = reduce_block(largest, memory_.largest, Maximum());
  }

  __device__ void keep_top_n_sigma(float n) {
    SigmaSums sums;
    each_logit<kCheap>([&](int, float x) {
      if (x != -CUDART_INF_F) sums.add(largest_, x);
    });
    for (std::uint64_t* sum : {&sums.tokens, &sums.distances, &sums.low, &sums.high}) {
      *sum = reduce_block(*sum, memory_.words, Add());
    }
    const double bound = sums.bound(n);
    const float largest = largest_;
    const float left = keep_if<kCheap>([&](float x) { return steps_below(largest, x) < bound; });
    largest_ = reduce_block(left, memory_.largest, Maximum());
  }

  /// Gives the tokens that are left other logits, as edits.
  __device__ void replace(const LogitsNearTarget& logits) { largest_ = replaced(*this, logits); }

 private:
  /// Writes the logits, and returns the largest one. The function is out of line, and has a row of
  /// its own, so that the filters pay for no registers of it, and keep the row in registers.
  __device__ __noinline__ static float replaced(EditedRow row, LogitsNearTarget logits) {
    const TokenScale scale(row.largest_, row.temperature_);
    float largest = -CUDART_INF_F;
    row.each_logit<kDear>([&](int word, float x) {
      const bool is_left = x != -CUDART_INF_F;
      const unsigned left = __ballot_sync(kAllLanes, is_left);
      if (lane_of_thread() == 0) row.edited_[word] |= left;
      if (!is_left) return;
      const float logit = logits.of(scale.weigh(x));
      row.values_[word * kWarp + lane_of_thread()] = logit;
      largest = fmaxf(largest, logit);
    });
    return reduce_block(largest, row.memory_.largest, Maximum());
  }

  /// Numbers of logits that a thread loads at once. The code of a visit is repeated for each, so
  /// that visits that weigh tokens have fewer.
  static constexpr int kCheap = 8;
  static constexpr int kDear = 4;

  /// Calls visit(word, x) for the words of bits that this warp reads, where x is the logit of the
  /// lane's token, or -inf if the token is banned.
  template <int kAtOnce, class Visit>
  __device__ __forceinline__ void each_logit(Visit&& visit) const {
    const int words = (vocab_ + kWarp - 1) / kWarp;
    const int step = warps_of_block();
    const std::uint32_t lane = 1U << lane_of_thread();
#pragma unroll 1
    for (int first = warp_of_thread(); first < words; first += kAtOnce * step) {
      float x[kAtOnce];
      std::uint32_t allowed[kAtOnce];
      std::uint32_t edited[kAtOnce];
      logits_.load(first * kWarp + lane_of_thread(), step * kWarp, vocab_, -CUDART_INF_F, x);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int word = first + i * step;
        allowed[i] = word < words ? allowed_[word] & lane : 0;
        edited[i] = word < words ? edited_[word] & lane : 0;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int word = first + i * step;
        if (edited[i] != 0) x[i] = values_[word * kWarp + lane_of_thread()];
        if (word < words) visit(word, allowed[i] != 0 ? x[i] : -CUDART_INF_F);
      }
    }
  }

  /// Bans the allowed tokens whose logit does not satisfy is_kept(logit). Returns the largest logit
  /// that this thread keeps.
  template <int kAtOnce, class IsKept>
  __device__ __forceinline__ float keep_if(IsKept&& is_kept) {
    float largest = -CUDART_INF_F;
    each_logit<kAtOnce>([&](int word, float x) {
      const bool stays = x != -CUDART_INF_F && is_kept(x);
      const unsigned kept = __ballot_sync(kAllLanes, stays);
      if (lane_of_thread() == 0) allowed_[word] = kept;
      if (stays) largest = fmaxf(largest, x);
    });
    return largest;
  }

  RowValues logits_;
  std::uint32_t* edited_;
  float* values_;
  std::uint32_t* allowed_;
  int vocab_;
  FilterMemory& memory_;
  float largest_ = 0;  ///< largest logit of the tokens that are left
  float temperature_ = 1.0F;
};

/// Applies the filters of a row whose parameters are in their ranges. The function is out of line,
/// so that rows without these filters do not pay for its registers.
__device__ __noinline__ inline void apply_row_filters(EditedRow row,
                                                      const ProcessingParameters& of_row,
                                                      std::int32_t output_length, double* share) {
  ProcessingParameters parameters = of_row;
  toss_coins(parameters.filters, output_length);
  row.apply(parameters, share);
}

}  // namespace fairdraw::cuda
