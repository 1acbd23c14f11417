// Draws from a residual or from a target's row for chain_speculative_sampling, with 1 to 8 blocks,
// and the parts that accept_tree.cu shares: the test of a drafted token and the pass over a
// residual. All arithmetic is done with integers (fairdraw/sampling.h).
//
// P are the target's weights with the sum Zp, Q the draft's weights with the sum Zq, and x is the
// drafted token. Two rules are computed exactly.
//   accept    if floor(r Q_x Zp / 2^64) < P_x Zq, which P_x Zq >= Q_x Zp and P_x > 0 imply,
//   residual  R_j = max(P_j Zq - Q_j Zp, 0), drawn by its prefix sums in token-id order.
// Products of weights and sums have up to 100 bits, sums of residuals up to 120 bits, and products
// with a random word up to 192 bits. If all residuals are 0, the two distributions are equal, and
// the token is drawn from the target.
//
// A single pass over both rows adds up the totals and the residuals at the same time. Bounds of the
// totals decide whether P Zq > Q Zp, unless the two products differ by a factor of at most 1 +
// 2^-20. The few tokens for which the bounds do not decide are listed, and added to the residuals
// when the totals are known. If the list overflows, which happens when one row is nearly a multiple
// of the other, a second pass uses the exact totals.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/speculation/filtered_distribution.cuh"
#include "cuda/speculation/row_draw.cuh"

namespace fairdraw::cuda {

/// Draw whose sums are residuals of up to 120 bits.
using ChainDraw = RowDraw<uint128_t>;
using ChainSums = RowSums<uint128_t>;

/// Result of the test of a drafted token. The result is `open` if the test is undecided because
/// totals are unknown.
enum class DraftDecision : std::uint32_t { rejects, accepts, open };

/// Returns whether a drafted token passes its test, given its two weights and the totals.
__device__ inline bool passes_test(std::uint64_t word, std::uint64_t p, std::uint64_t target_total,
                                   std::uint64_t q, std::uint64_t draft_total) {
  return multiply_high(word, static_cast<uint128_t>(q) * target_total) <
         static_cast<uint128_t>(p) * draft_total;
}

/// Tests a draft. The decision is `open` only if one of the totals is unknown. A larger total of
/// the target never makes a rejected draft accepted, and neither does a smaller total of the draft.
template <class Target, class Draft>
__device__ DraftDecision test_draft(const Distribution<Target>& target,
                                    const Distribution<Draft>& draft, std::int32_t token,
                                    std::uint64_t word) {
  const std::uint64_t p = target.weight(token);
  const std::uint64_t q = draft.weight(token);
  const auto accepts = [=](std::uint64_t target_total, std::uint64_t draft_total) {
    return passes_test(word, p, target_total, q, draft_total);
  };
  if (accepts(target.bounds.high, draft.bounds.low)) return DraftDecision::accepts;
  return accepts(target.bounds.low, draft.bounds.high) ? DraftDecision::open
                                                       : DraftDecision::rejects;
}

/// Measure of residuals. The residuals of several tokens sum to Zq sum P - Zp sum Q, where the sums
/// run over the tokens with P Zq > Q Zp. So each token costs a comparison and two 64-bit additions.
template <class Target, class Draft>
class ResidualMeasure : public PairMeasure<Target, Draft> {
  using Pair = PairMeasure<Target, Draft>;
  using Pair::draft;
  using Pair::target;

 public:
  using typename Pair::Part;
  using typename Pair::Weights;

  __device__ ResidualMeasure(const Distribution<Target>& target_, const Distribution<Draft>& draft_)
      : Pair{target_, draft_},
        target_total_(static_cast<float>(target.total())),
        draft_total_(static_cast<float>(draft.total())) {}

  __device__ void add(Part& part, const Weights& weights, int i) const {
    this->add_if(part, weights, i, [this](float p, float q) { return is_positive(p, q); });
  }
  __device__ uint128_t of_part(const Part& part) const {
    return of_sums(static_cast<std::uint64_t>(part.p), static_cast<std::uint64_t>(part.q));
  }
  /// Returns the sum of the residuals of some tokens, given the sums of the weights P and Q of
  /// these tokens.
  __device__ uint128_t of_sums(std::uint64_t p, std::uint64_t q) const {
    return static_cast<uint128_t>(p) * draft.total() - static_cast<uint128_t>(q) * target.total();
  }

  /// Returns P Zq > Q Zp. Each float32 product has two roundings, so its relative error is at most
  /// 2 * 2^-24; products that differ by less than a 2^-20 part are compared exactly. Products are
  /// below 2^101.
  __device__ bool is_positive(float p, float q) const {
    constexpr float kBand = 0x1p-20F;
    const float a = p * draft_total_;
    const float b = q * target_total_;
    if (fabsf(a - b) > kBand * fmaxf(a, b)) return a > b;
    return p > 0.0F && exceeds(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q));
  }

 private:
  __device__ __noinline__ bool exceeds(std::uint64_t p, std::uint64_t q) const {
    return static_cast<uint128_t>(p) * draft.total() > static_cast<uint128_t>(q) * target.total();
  }

  float target_total_, draft_total_;
};

/// Sums over both rows, with flags for tokens that the bounds of the totals did not decide.
struct PairTotals {
  static constexpr std::uint32_t kSome = 1, kTooMany = 2;
  std::uint64_t p, q;
  std::uint32_t open;  ///< bits kSome and kTooMany, which tell whether tokens are undecided

  __device__ PairTotals summed_by_warp() const {
    return {reduce_warp(p, Add{}), reduce_warp(q, Add{}),
            (__any_sync(kAllLanes, (open & kSome) != 0) != 0 ? kSome : 0) |
                (__any_sync(kAllLanes, (open & kTooMany) != 0) != 0 ? kTooMany : 0)};
  }
};

/// Shared memory of a block whose cluster adds up a residual, in addition to the sums of chunks.
struct ResidualSums {
  static constexpr int kMaxOpen = 64;
  static constexpr int kMaxWarpsOfDraw = 8;
  struct OpenToken {
    float p, q;
    std::int32_t token;
  };

  PairTotals totals[kMaxBlocks][kMaxWarpsOfDraw];  ///< totals of the warps of all blocks
  int open;                                        ///< number of undecided tokens, including those
                                                   ///< that did not fit into the list
  OpenToken open_tokens[kMaxOpen];

  /// Clears the list. All threads must call this function, and a barrier of the block must follow
  /// before the draw.
  __device__ void clear() {
    if (threadIdx.x == 0) open = 0;
  }
  /// Lists a token that the bounds do not decide, and returns the bits that the token sets in
  /// PairTotals::open.
  __device__ std::uint32_t leave_open(float p, float q, std::int64_t token) {
    const int place = atomicAdd(&open, 1);
    if (place >= kMaxOpen) return PairTotals::kSome | PairTotals::kTooMany;
    open_tokens[place] = {p, q, static_cast<std::int32_t>(token)};
    return PairTotals::kSome;
  }
  /// Sends the totals of this warp to all blocks of the cluster. All threads of all blocks must
  /// call this function; each lane of a warp has a part of the warp's totals.
  __device__ void send(const PairTotals& of_lane, const RowCluster& cluster) {
    const PairTotals mine = of_lane.summed_by_warp();
    if (lane_of_thread() < cluster.blocks) {
      *cluster.at(&totals[cluster.rank][warp_of_thread()], lane_of_thread()) = mine;
    }
  }
  /// Returns the totals of all blocks; a barrier of the blocks must have followed send(). All
  /// threads must call this function.
  __device__ PairTotals sum(const RowCluster& cluster) const {
    const int warps = warps_of_block();
    PairTotals mine{};
    for (int i = lane_of_thread(); i < cluster.blocks * warps; i += kWarp) {
      const PairTotals& other = totals[i / warps][i % warps];
      mine.p += other.p;
      mine.q += other.q;
      mine.open |= other.open;
    }
    return mine.summed_by_warp();
  }
};

/// Shared memory of a block whose cluster draws from a residual.
struct ResidualMemory : ResidualSums {
  SharedDistribution target, draft;
};

/// Measure that sums P and Q over the tokens that have a positive residual by the bounds of the
/// totals, and also over all tokens.
template <class Sum>
class BoundedResidualMeasure : public PairMeasure<FilteredWeight, FilteredWeight> {
 public:
  struct Part : PairMeasure::Part {
    double all_p = 0, all_q = 0;  // sums over all tokens, which are as exact as the sums over
                                  // tokens with residuals
    std::uint32_t open = 0;
  };
  /// Sums of P and Q over all tokens that a lane reads. The sums are exact, because a lane has at
  /// most 2^20 / 128 tokens of a row.
  struct Rest {
    double p = 0, q = 0;
    std::uint32_t open = 0;
    __device__ void add(const Part& part) {
      p += part.all_p;
      q += part.all_q;
      open |= part.open;
    }
  };

  __device__ BoundedResidualMeasure(const FilteredDistribution& target_,
                                    const FilteredDistribution& draft_, ResidualSums& sums)
      : PairMeasure{target_, draft_},
        sums_(sums),
        target_total_(static_cast<float>(target.bounds.high)),
        draft_total_(static_cast<float>(draft.bounds.high)),
        band_(kRoundings + width(target.bounds) + width(draft.bounds)) {}

  __device__ void add(Part& part, const Weights& weights, int i) const {
    const float p = weights.p[i];
    const float q = weights.q[i];
    part.all_p += static_cast<double>(p);
    part.all_q += static_cast<double>(q);
    const float a = p * draft_total_;
    const float b = q * target_total_;
    bool is_left = a > b;
    if (fabsf(a - b) <= band_ * fmaxf(a, b) && p > 0.0F) {
      const DraftDecision decision =
          decide(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q));
      is_left = decision == DraftDecision::accepts;
      if (decision == DraftDecision::open) {
        part.open |= sums_.leave_open(p, q, weights.first + i * kWarp);
      }
    }
    if (!is_left) return;
    part.p += static_cast<double>(p);
    part.q += static_cast<double>(q);
  }
  __device__ Sum of_part(const PairMeasure::Part& part) const {
    return Sum(
        side_by_side(static_cast<std::uint64_t>(part.p), static_cast<std::uint64_t>(part.q)));
  }
  __device__ void send(const Rest& rest, const RowCluster& cluster) const {
    sums_.send({static_cast<std::uint64_t>(rest.p), static_cast<std::uint64_t>(rest.q), rest.open},
               cluster);
  }

 private:
  /// Upper bound of the relative error of a float32 product, which has two roundings (2 * 2^-24).
  static constexpr float kRoundings = 0x1p-20F;

  /// Returns the relative distance of the two bounds, doubled to cover the rounding error of this
  /// computation.
  __device__ static float width(const TotalBounds& bounds) {
    return 2.0F * static_cast<float>(bounds.high - bounds.low) / static_cast<float>(bounds.high);
  }
  /// Decides by the bounds of the totals whether P Zq > Q Zp, which means that the token has a
  /// positive residual.
  __device__ __noinline__ DraftDecision decide(std::uint64_t p, std::uint64_t q) const {
    const auto product = [](std::uint64_t a, std::uint64_t b) {
      return static_cast<uint128_t>(a) * b;
    };
    if (product(p, draft.bounds.low) > product(q, target.bounds.high)) {
      return DraftDecision::accepts;
    }
    return product(p, draft.bounds.high) > product(q, target.bounds.low) ? DraftDecision::open
                                                                         : DraftDecision::rejects;
  }

  ResidualSums& sums_;
  float target_total_, draft_total_, band_;
};

/// Draws a token from the target's row, with integer arithmetic.
template <class Target>
__device__ std::int32_t draw_from_target(ChainDraw& draw, std::uint64_t word,
                                         const Distribution<Target>& target) {
  return draw.draw(word, TargetMeasure<uint128_t, Target>{target});
}

/// Draws the token that replaces a rejected draft token. Precondition: the totals of both rows are
/// known.
template <class Target, class Draft>
__device__ std::int32_t draw_residual(ChainDraw& draw, std::uint64_t word,
                                      const Distribution<Target>& target,
                                      const Distribution<Draft>& draft) {
  const std::int32_t token = draw.draw(word, ResidualMeasure<Target, Draft>(target, draft));
  if (token != ChainDraw::kNothing) return token;
  return draw_from_target(draw, word, target);
}

/// Adds up P and Q over the tokens with positive residuals, by chunks of the row; `both` has one
/// sum in each of its two words. Afterwards, the totals of both rows are known. Returns false if
/// the bounds leave too many tokens undecided; the totals are known even in this case.
/// Precondition: a barrier has followed the clearing of `sums`. All threads of all blocks must call
/// this function.
template <class Sum>
__device__ bool add_up_residual(RowDraw<Sum>& draw, SharedDistribution& target,
                                SharedDistribution& draft, ResidualSums& sums,
                                const RowCluster& cluster, Sum& both) {
  both = draw.add_up(BoundedResidualMeasure<Sum>(target.get(), draft.get(), sums));
  const PairTotals totals = sums.sum(cluster);
  target.know_total(totals.p);
  draft.know_total(totals.q);
  if ((totals.open & PairTotals::kTooMany) != 0) return false;
  if (totals.open == 0) return true;
  const ResidualMeasure<FilteredWeight, FilteredWeight> measure(target.get(), draft.get());
  for (int i = 0; warp_of_thread() == 0 && i < sums.open; ++i) {
    const ResidualSums::OpenToken& token = sums.open_tokens[i];
    if (!measure.is_positive(token.p, token.q)) continue;
    draw.add_to_chunk(draw.chunk_of(token.token),
                      Sum(side_by_side(static_cast<std::uint64_t>(token.p),
                                       static_cast<std::uint64_t>(token.q))));
  }
  both = draw.share();
  return true;
}

/// Draws the token that replaces a rejected draft token, given only bounds of the totals. `memory`
/// has the two distributions, and must have been cleared before the call. All threads of all blocks
/// must call this function, once per kernel.
__device__ inline std::int32_t draw_residual(ChainDraw& draw, std::uint64_t word,
                                             ResidualMemory& memory, const RowCluster& cluster) {
  const FilteredDistribution& target = memory.target.get();
  const FilteredDistribution& draft = memory.draft.get();
  uint128_t both_sums;
  if (!add_up_residual(draw, memory.target, memory.draft, memory, cluster, both_sums)) {
    return draw_residual(draw, word, target, draft);
  }
  const ResidualMeasure<FilteredWeight, FilteredWeight> measure(target, draft);
  const uint128_t residual = draw.change_sums([&measure](const uint128_t& both) {
    return measure.of_sums(static_cast<std::uint64_t>(both >> 64),
                           static_cast<std::uint64_t>(both));
  });
  if (residual == 0) return draw_from_target(draw, word, target);
  const uint128_t t = multiply_high(word, residual);
  return draw.find(measure, [t](const uint128_t& sum) { return sum > t; });
}

}  // namespace fairdraw::cuda
