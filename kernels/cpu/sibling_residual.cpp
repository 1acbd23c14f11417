#include "cpu/sibling_residual.h"

#include <numeric>

namespace fairdraw::cpu {

void SiblingResidual::start(const DistributionWeights& target, DistributionWeights& draft,
                            std::size_t vocab) {
  target_ = &target;
  draft_ = &draft;
  vocab_ = vocab;
  whole_ = true;
  p_sum_ = target.total;
  q_sum_ = 0;  // times B, which is 0
  scales_.start();
}

bool SiblingResidual::accepts(std::int32_t token, std::uint64_t word) const {
  return scales_.accepts(word, p(token), q(token), draft_->total, p_sum_, q_sum_);
}

void SiblingResidual::reject(std::int32_t token, SiblingSampling sampling) {
  scales_.reject(draft_->total, p_sum_, q_sum_);
  const SiblingScales::Leading leading = scales_.leading();
  p_sum_ = q_sum_ = 0;
  const auto stays = [&](std::int32_t j) {
    if (!scales_.is_left(p(j), q(j), leading)) return false;
    p_sum_ += p(j);
    q_sum_ += q(j);
    return true;
  };
  if (whole_) {
    members_.clear();
    for (std::size_t j = 0; j < vocab_; ++j) {
      if (stays(static_cast<std::int32_t>(j))) members_.push_back(static_cast<std::int32_t>(j));
    }
    whole_ = false;
  } else {
    std::erase_if(members_, [&](std::int32_t j) { return !stays(j); });
  }
  if (sampling == SiblingSampling::without_replacement) {  // it is no member any more
    draft_->total -= q(token);
    draft_->weight[static_cast<std::size_t>(token)] = 0;
  }
}

// The first token whose prefix sum is above floor(word S / 2^64).
std::int32_t SiblingResidual::recover(std::uint64_t word) {
  p_prefix_.clear();
  q_prefix_.clear();
  std::uint64_t p_until = 0, q_until = 0;
  for (const std::int32_t j : members_) {
    p_prefix_.push_back(p_until += p(j));
    q_prefix_.push_back(q_until += q(j));
  }
  std::size_t first = 0;
  for (std::size_t end = members_.size() - 1; first < end;) {
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
