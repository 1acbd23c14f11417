// Measure of the residual that a node's target distribution has after its rejected children. The
// blocks that share a row sum P and Q over the tokens that remain (serving/rules/sibling_scales.h).
#pragma once

#include <cstdint>

#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/filtered_distribution.cuh"
#include "cuda/speculation/row_draw.cuh"
#include "serving/rules/sibling_scales.h"

namespace fairdraw::cuda {

/// Sums of P and Q over some selected tokens.
struct WeightSums {
  std::uint64_t p, q;

  WeightSums() = default;
  __device__ explicit WeightSums(std::uint64_t p_, std::uint64_t q_ = 0) : p(p_), q(q_) {}
  __device__ explicit WeightSums(uint128_t both)
      : p(static_cast<std::uint64_t>(both >> 64)), q(static_cast<std::uint64_t>(both)) {}
  __device__ explicit operator uint128_t() const { return side_by_side(p, q); }
  __device__ WeightSums& operator+=(const WeightSums& other) {
    p += other.p;
    q += other.q;
    return *this;
  }
};
__device__ inline WeightSums value_of_lane(const WeightSums& sums, int lane) {
  return WeightSums(cuda::value_of_lane(sums.p, lane), cuda::value_of_lane(sums.q, lane));
}

/// Scales A and B, which decide whether a token remains: it remains if P A > Q B.
struct Scales {
  SiblingScales exact;
  SiblingScales::Leading leading;
  float low, high;  ///< bounds of A / B, with a margin on either side for two roundings to float32

  /// Computes the bounds of A / B, with one thread. Precondition: at least one child was rejected,
  /// or the scales are those of a block, so that B is above 0. After rejected children, A / B is
  /// between 2^-71 and 2^60: B_k / A_k is at least 2^-60 at first, and each child increases it by S
  /// / (A Z), which is at most 2^60. So at least 16 bits remain of the shorter of A and B. In a
  /// block A / B is between 2^-124 and 2^60, so that the bounds are normal numbers or 0. If few
  /// bits of A remain, the bounds are far apart, and is_left() decides more tokens.
  __device__ void set_bounds() {
    constexpr double kRoom = 0x1p-22;
    leading = exact.leading();
    const double cut = leading.shift > 0 ? 1.0 : 0.0;
    const double a = to_double(leading.a);
    const double b = to_double(leading.b);
    low = static_cast<float>(a / (b + cut) * (1.0 - kRoom));
    high = static_cast<float>((a + cut) / b * (1.0 + kRoom));
  }
  // The function is out of line, because inlined 256-bit arithmetic would take registers from the
  // passes.
  __device__ __noinline__ bool is_left(std::uint64_t p, std::uint64_t q) const {
    return exact.is_left(p, q, leading);
  }
  __device__ __noinline__ bool accepts(std::uint64_t word, std::uint64_t p, std::uint64_t q,
                                       std::uint64_t draft_total, const WeightSums& left) const {
    return exact.accepts(word, p, q, draft_total, left.p, left.q);
  }
  __device__ __noinline__ bool passes(std::uint64_t word, std::uint64_t target_total,
                                      std::uint64_t draft_total, const WeightSums& left) const {
    return exact.passes(word, target_total, draft_total, left.p, left.q);
  }
  __device__ __noinline__ bool prefix_exceeds(std::uint64_t word, const WeightSums& prefix,
                                              const WeightSums& left) const {
    return exact.prefix_exceeds(word, prefix.p, prefix.q, left.p, left.q);
  }

 private:
  __device__ static double to_double(uint128_t value) {
    return static_cast<double>(static_cast<std::uint64_t>(value >> 64)) * 0x1p64 +
           static_cast<double>(static_cast<std::uint64_t>(value));
  }
};

/// Measure that sums P and Q over the tokens that remain by the scales, as they are when the
/// measure is constructed.
class LeftMeasure : public PairMeasure<FilteredWeight, FilteredWeight> {
 public:
  __device__ LeftMeasure(const FilteredDistribution& target_, const FilteredDistribution& draft_,
                         const Scales& scales)
      : PairMeasure{target_, draft_}, scales_(scales), low_(scales.low), high_(scales.high) {}

  __device__ void add(Part& part, const Weights& weights, int i) const {
    add_if(part, weights, i, [this](float p, float q) { return is_left(p, q); });
  }
  __device__ WeightSums of_part(const Part& part) const {
    return WeightSums(static_cast<std::uint64_t>(part.p), static_cast<std::uint64_t>(part.q));
  }

 private:
  __device__ bool is_left(float p, float q) const {
    if (p * low_ > q) return true;
    if (p * high_ <= q) return false;
    return scales_.is_left(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q));
  }

  const Scales& scales_;
  float low_, high_;
};

/// Shared memory of a walk that draws from residuals with scales, and first from one without.
struct ScaledWalkMemory {
  RowSums<WeightSums> sums;
  SharedDistribution target, draft;
  union {
    ResidualSums residual;  ///< used until a residual needs scales
    Scales scales;
  };
};
static_assert(sizeof(ScaledWalkMemory) <= 48 * 1024, "what a block may have without asking for it");

}  // namespace fairdraw::cuda
