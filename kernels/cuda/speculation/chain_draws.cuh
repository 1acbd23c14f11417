// What speculation of a chain draws: of a residual, or of a target's row, by 1 to 8 blocks; and
// the test of a drafted token. In integers (fairdraw/sampling.h, chain_speculative_sampling).
//
// With target weights P (sum Zp) and draft weights Q (sum Zq), x the drafted token:
//   accept    if floor(r Q_x Zp / 2^64) < P_x Zq, which P_x Zq >= Q_x Zp and P_x > 0 imply,
//   residual  R_j = max(P_j Zq - Q_j Zp, 0), drawn by its prefix sums in token-id order,
// exactly: products have up to 100 bits, sums of residuals 120, products with a random word 192.
// Where all residuals are 0 the two distributions are equal, and the token is drawn from the
// target.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/speculation/row_draw.cuh"

namespace fairdraw::cuda {

/// A sum of residuals has up to 120 bits.
using ChainDraw = RowDraw<uint128_t>;
using ChainSums = RowSums<uint128_t>;

/// What a test of a draft says: where totals are not known it may be open.
enum class Verdict : std::uint32_t { rejects, accepts, open };

/// Whether a drafted token passes, by its two weights and the totals.
__device__ inline bool passes_test(std::uint64_t word, std::uint64_t p, std::uint64_t target_total,
                                   std::uint64_t q, std::uint64_t draft_total) {
  return multiply_high(word, static_cast<uint128_t>(q) * target_total) <
         static_cast<uint128_t>(p) * draft_total;
}

/// `open` only where a total is not known. More of the target's or less of the draft's total never
/// makes a draft accepted that was not.
template <class Target, class Draft>
__device__ Verdict test_draft(const Distribution<Target>& target, const Distribution<Draft>& draft,
                              std::int32_t token, std::uint64_t word) {
  const std::uint64_t p = target.weight(token);
  const std::uint64_t q = draft.weight(token);
  const auto accepts = [=](std::uint64_t target_total, std::uint64_t draft_total) {
    return passes_test(word, p, target_total, q, draft_total);
  };
  if (accepts(target.bounds.high, draft.bounds.low)) return Verdict::accepts;
  return accepts(target.bounds.low, draft.bounds.high) ? Verdict::open : Verdict::rejects;
}

/// Residuals. Those of many tokens are Zq sum P - Zp sum Q over the tokens with P Zq > Q Zp, so
/// that a token costs a comparison and two additions of 64 bits.
template <class Target, class Draft>
class ResidualMeasure : public PairMeasure<Target, Draft> {
  using Pair = PairMeasure<Target, Draft>;
  using Pair::draft;
  using Pair::target;

 public:
  using typename Pair::Part;
  using typename Pair::Values;

  __device__ ResidualMeasure(const Distribution<Target>& target_, const Distribution<Draft>& draft_)
      : Pair{target_, draft_},
        target_total_(static_cast<float>(target.total())),
        draft_total_(static_cast<float>(draft.total())) {}

  __device__ void add(Part& part, std::int64_t token, const Values& values, int i) const {
    this->add_if(part, token, values, i, [this](float p, float q) { return is_positive(p, q); });
  }
  __device__ uint128_t of_part(const Part& part) const {
    return static_cast<uint128_t>(static_cast<std::uint64_t>(part.p)) * draft.total() -
           static_cast<uint128_t>(static_cast<std::uint64_t>(part.q)) * target.total();
  }

 private:
  /// P Zq > Q Zp. Each float32 product is two roundings off at most, 2 * 2^-24 of it; what lies
  /// closer than 2^-20 is compared exactly. Products are below 2^101.
  __device__ bool is_positive(float p, float q) const {
    constexpr float kBand = 0x1p-20F;
    const float a = p * draft_total_;
    const float b = q * target_total_;
    if (fabsf(a - b) > kBand * fmaxf(a, b)) return a > b;
    return p > 0.0F && exceeds(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q));
  }
  __device__ __noinline__ bool exceeds(std::uint64_t p, std::uint64_t q) const {
    return static_cast<uint128_t>(p) * draft.total() > static_cast<uint128_t>(q) * target.total();
  }

  float target_total_, draft_total_;
};

/// A token of the target's row.
template <class Target>
__device__ std::int32_t draw_from_target(ChainDraw& draw, std::uint64_t word,
                                         const Distribution<Target>& target) {
  return draw.draw(word, TargetMeasure<uint128_t, Target>{target});
}

/// The token in place of one that is rejected. Requires: both totals are known.
template <class Target, class Draft>
__device__ std::int32_t draw_residual(ChainDraw& draw, std::uint64_t word,
                                      const Distribution<Target>& target,
                                      const Distribution<Draft>& draft) {
  const std::int32_t token = draw.draw(word, ResidualMeasure<Target, Draft>(target, draft));
  if (token != ChainDraw::kNothing) return token;
  return draw_from_target(draw, word, target);
}

}  // namespace fairdraw::cuda
