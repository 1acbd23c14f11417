#include "serving/drafts/sibling_residual.h"

#include <numeric>

namespace fairdraw::cpu {

void SiblingResidual::start(const DistributionWeights& target, DistributionWeights& draft,
                            std::size_t vocab) {
  target_ = &target;
  draft_ = &draft;
  count_ = vocab;
  whole_ = true;
  if (members_.size() < vocab) members_.resize(vocab);
  p_sum_ = target.total;
  q_sum_ = 0;  // factor B, which is 0
  scales_.start();
}

void SiblingResidual::start(const DistributionWeights& target, DistributionWeights& draft,
                            std::size_t vocab, uint128_t share) {
  start(target, draft, vocab);
  scales_.start(share, target.total, draft.total);
  list_left();
}

bool SiblingResidual::passes(std::uint64_t word) const {
  return count_ > 0 && scales_.passes(word, target_->total, draft_->total, p_sum_, q_sum_);
}

bool SiblingResidual::accepts(std::int32_t token, std::uint64_t word) const {
  return scales_.accepts(word, p(token), q(token), draft_->total, p_sum_, q_sum_);
}

void SiblingResidual::reject(std::int32_t token, SiblingSampling sampling) {
  scales_.reject(draft_->total, p_sum_, q_sum_);
  list_left();
  if (sampling == SiblingSampling::without_replacement) {  // the drafted token is no longer among
                                                           // the remaining tokens
    draft_->total -= q(token);
    draft_->weight[static_cast<std::size_t>(token)] = 0;
  }
}

void SiblingResidual::list_left() {
  const SiblingScales::Leading leading = scales_.leading();
  // The loop has no branches, because branches could not be predicted: any token may stay or go.
  std::uint64_t p_sum = 0, q_sum = 0;
  std::size_t count = 0;
  std::int32_t* const members = members_.data();
  for (std::size_t i = 0; i < count_; ++i) {
    const std::int32_t j = whole_ ? static_cast<std::int32_t>(i) : members[i];
    const std::uint64_t stays = scales_.is_left(p(j), q(j), leading) ? 1 : 0;
    members[count] = j;
    count += stays;
    p_sum += stays * p(j);
    q_sum += stays * q(j);
  }
  whole_ = false;
  count_ = count;
  p_sum_ = p_sum;
  q_sum_ = q_sum;
}

// Returns the first token whose prefix sum exceeds floor(word S / 2^64).
std::int32_t SiblingResidual::recover(std::uint64_t word) {
  p_prefix_.clear();
  q_prefix_.clear();
  std::uint64_t p_until = 0, q_until = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    p_prefix_.push_back(p_until += p(members_[i]));
    q_prefix_.push_back(q_until += q(members_[i]));
  }
  std::size_t first = 0;
  for (std::size_t end = count_ - 1; first < end;) {
    const std::size_t middle = std::midpoint(first, end);
    if (scales_.prefix_exceeds(word, p_prefix_[middle], q_prefix_[middle], p_sum_, q_sum_)) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return members_[first];
}

}  // namespace fairdraw::cpu
