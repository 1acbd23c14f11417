// What the siblings that are rejected leave of the target, with the tokens that are left in a list:
// sibling_scales.h tells how two long integers are the whole residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/distribution_weights.h"
#include "fairdraw/speculative.h"
#include "serving/rules/sibling_scales.h"

namespace fairdraw::cpu {

/// Of one node at a time; keeps its memory.
class SiblingResidual {
 public:
  /// `draft`: loses the tokens that are drawn without replacement. Both outlive the node.
  void start(const DistributionWeights& target, DistributionWeights& draft, std::size_t vocab);

  /// True where the next child, of positive weight in the draft, is accepted.
  bool accepts(std::int32_t token, std::uint64_t word) const;

  /// The next child is rejected.
  void reject(std::int32_t token, SiblingSampling sampling);

  /// A token of what is left, once a child was rejected.
  std::int32_t recover(std::uint64_t word);

 private:
  std::uint64_t p(std::int32_t token) const {
    return target_->weight[static_cast<std::size_t>(token)];
  }
  std::uint64_t q(std::int32_t token) const {
    return draft_->weight[static_cast<std::size_t>(token)];
  }

  const DistributionWeights* target_ = nullptr;
  DistributionWeights* draft_ = nullptr;
  bool whole_ = true;                  // nothing is rejected: all tokens are in M
  std::vector<std::int32_t> members_;  // M, by token id: the first `count_`
  std::size_t count_ = 0;
  std::uint64_t p_sum_ = 0, q_sum_ = 0;
  SiblingScales scales_;
  std::vector<std::uint64_t> p_prefix_, q_prefix_;
};

}  // namespace fairdraw::cpu
