// Residual of the target after rejected siblings, or after a prefix of a block, with a list of the
// tokens that remain. The header sibling_scales.h explains how two long integers represent the
// whole residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/distribution_weights.h"
#include "fairdraw/speculative.h"
#include "serving/rules/sibling_scales.h"

namespace fairdraw::cpu {

/// Residual of one node at a time, whose memory the next node uses again.
class SiblingResidual {
 public:
  /// Starts a node. `draft` loses the tokens that are drawn without replacement. Both distributions
  /// must exist as long as the node is in use.
  void start(const DistributionWeights& target, DistributionWeights& draft, std::size_t vocab);

  /// Starts the residual after a prefix of a block, where `share` 2^-64 of the target is left. The
  /// distributions must exist as long as the residual is in use.
  void start(const DistributionWeights& target, DistributionWeights& draft, std::size_t vocab,
             uint128_t share);

  /// Returns whether the prefix of the block passes.
  bool passes(std::uint64_t word) const;

  /// Returns whether the next child is accepted; its weight in the draft must be positive.
  bool accepts(std::int32_t token, std::uint64_t word) const;

  /// Removes the next child, which has been rejected, from the residual.
  void reject(std::int32_t token, SiblingSampling sampling);

  /// Draws a token from the residual. Precondition: at least one child has been rejected, or the
  /// residual is that of a prefix that passes.
  std::int32_t recover(std::uint64_t word);

 private:
  std::uint64_t p(std::int32_t token) const {
    return target_->weight[static_cast<std::size_t>(token)];
  }
  std::uint64_t q(std::int32_t token) const {
    return draft_->weight[static_cast<std::size_t>(token)];
  }

  /// Removes the tokens whose residual is 0 from the list, and sums the weights of the others.
  void list_left();

  const DistributionWeights* target_ = nullptr;
  DistributionWeights* draft_ = nullptr;
  bool whole_ = true;  // whether no child has been rejected, so that the set M of remaining tokens
                       // has all tokens
  std::vector<std::int32_t> members_;  // tokens of the set M in the order of ids, in the first
                                       // `count_` elements
  std::size_t count_ = 0;
  std::uint64_t p_sum_ = 0, q_sum_ = 0;
  SiblingScales scales_;
  std::vector<std::uint64_t> p_prefix_, q_prefix_;
};

}  // namespace fairdraw::cpu
