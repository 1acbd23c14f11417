// What the siblings that do not stand leave of the target, exactly (fairdraw/speculative.h).
//
// The residual of a node starts as the target's weights, R_0 = P, and behind child k, which does
// not stand, R_{k+1}(j) = max(R_k(j) Z_k - Q_k(j) S_k, 0). Written out, a weight of R_k has 60 k
// + 40 bits, for every token. But with A_0 = 1, B_0 = 0,
//     A_{k+1} = A_k Z_k, B_{k+1} = B_k Z_k + S_k:  R_k(j) = max(P(j) A_k - Q_0(j) B_k, 0)
// for every j that is not among the children before k, and 0 for those:
//   - if P A_k - Q B_k <= 0 then R_k is 0 and R_{k+1} too, and B / A never falls;
//   - else R_{k+1} = (P A_k - Q B_k) Z_k - Q S_k, which is that form;
//   - a child x does not stand only where its chance is below 1, R_k(x) Z_k < Q_k(x) S_k, which is
//     R_{k+1}(x) = 0; so it does not matter that Q_{k+1} may be without it.
// So two long integers a node are the whole residual. M_k, the tokens with R_k > 0, only shrinks,
// and sums over it need no more than those of P and Q, which have 60 bits:
//     S_k = A_k P(M_k) - B_k Q(M_k), B_{k+1} = A_k P(M_k) + B_k (Z_k - Q_k(M_k)),
// where Q_k = Q_0 on M_k. Whether a token stays in M is asked of the leading 87 bits of A and B;
// the rest of them only where those leave it open.
//
// There is always something to draw: R_k Z_k and Q_k S_k have the same sum, so where one token has
// less than the other has, another has more, and S_{k+1} > 0 behind every child that does not
// stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/speculative.h"
#include "law_weights.h"
#include "long_integer.h"

namespace fairdraw::cpu {

/// Of one node at a time; keeps its memory.
class SiblingResidual {
 public:
  /// `draft`: loses the tokens that are drawn without replacement. Both outlive the node.
  void start(const LawWeights& target, LawWeights& draft, std::size_t vocab);

  /// True where the next child, of positive weight in the draft, stands.
  bool accepts(std::int32_t token, std::uint64_t word);

  /// The next child does not stand.
  void reject(std::int32_t token, SiblingSampling sampling);

  /// A token of what is left, once a child was rejected.
  std::int32_t recover(std::uint64_t word);

 private:
  struct Leading;  // bits of A and B

  std::uint64_t p(std::int32_t token) const {
    return target_->weight[static_cast<std::size_t>(token)];
  }
  std::uint64_t q(std::int32_t token) const {
    return draft_->weight[static_cast<std::size_t>(token)];
  }
  bool is_left(std::uint64_t p, std::uint64_t q, const Leading& leading);
  void set_sum(LongInteger& to) const;  // S

  const LawWeights* target_ = nullptr;
  LawWeights* draft_ = nullptr;
  std::size_t vocab_ = 0;
  bool whole_ = true;                  // nothing is rejected: all tokens are in M
  std::vector<std::int32_t> members_;  // M, by token id
  std::uint64_t p_sum_ = 0, q_sum_ = 0;
  LongInteger a_, b_;
  LongInteger left_, right_;  // of comparisons
  std::vector<std::uint64_t> p_prefix_, q_prefix_;
};

}  // namespace fairdraw::cpu
