#include "sibling_residual.h"

#include <algorithm>
#include <numeric>

namespace fairdraw::cpu {

// floor(A / 2^shift), floor(B / 2^shift), of 87 bits at most: times a weight, at most 2^40, they
// fit into 128.
struct SiblingResidual::Leading {
  static constexpr int kBits = 87;

  static Leading of(const LongInteger& a, const LongInteger& b) {
    const int shift = std::max(0, std::max(a.bits(), b.bits()) - kBits);
    return {shift, a.shifted(shift), b.shifted(shift)};
  }

  int shift;
  uint128_t a, b;
};

void SiblingResidual::start(const LawWeights& target, LawWeights& draft, std::size_t vocab) {
  target_ = &target;
  draft_ = &draft;
  vocab_ = vocab;
  whole_ = true;
  p_sum_ = target.total;
  q_sum_ = 0;  // times B, which is 0
  a_ = 1;
  b_ = 0;
}

void SiblingResidual::set_sum(LongInteger& to) const {
  to = 0;
  to.add_product(a_, p_sum_);
  to.subtract_product(b_, q_sum_);
}

// floor(word Q S / 2^64) < R Z, which is word Q S < R Z 2^64.
bool SiblingResidual::accepts(std::int32_t token, std::uint64_t word) {
  right_ = 0;
  right_.add_product(a_, p(token));
  left_ = 0;
  left_.add_product(b_, q(token));
  if (right_ <= left_) return false;
  right_.subtract_product(b_, q(token));
  right_.multiply(draft_->total);
  right_.shift_by_a_word();
  set_sum(left_);
  left_.multiply(q(token));
  left_.multiply(word);
  return left_ < right_;
}

// P A > Q B.
bool SiblingResidual::is_left(std::uint64_t p, std::uint64_t q, const Leading& leading) {
  if (p == 0) return false;
  if (q == 0) return true;
  if (leading.shift == 0) return p * leading.a > q * leading.b;
  if (p * leading.a >= q * (leading.b + 1)) return true;
  if (p * (leading.a + 1) <= q * leading.b) return false;
  left_ = 0;
  left_.add_product(a_, p);
  right_ = 0;
  right_.add_product(b_, q);
  return left_ > right_;
}

void SiblingResidual::reject(std::int32_t token, SiblingSampling sampling) {
  const std::uint64_t z = draft_->total;
  b_.multiply(z - q_sum_);
  b_.add_product(a_, p_sum_);
  a_.multiply(z);
  const Leading leading = Leading::of(a_, b_);
  p_sum_ = q_sum_ = 0;
  const auto stays = [&](std::int32_t j) {
    if (!is_left(p(j), q(j), leading)) return false;
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

// The first token whose prefix sum is above floor(word S / 2^64), so that word S is below 2^64
// times the prefix sum: A P(prefix) - B Q(prefix).
std::int32_t SiblingResidual::recover(std::uint64_t word) {
  p_prefix_.clear();
  q_prefix_.clear();
  std::uint64_t p_until = 0, q_until = 0;
  for (const std::int32_t j : members_) {
    p_prefix_.push_back(p_until += p(j));
    q_prefix_.push_back(q_until += q(j));
  }
  set_sum(left_);
  left_.multiply(word);
  std::size_t first = 0;
  for (std::size_t end = members_.size() - 1; first < end;) {
    const std::size_t middle = std::midpoint(first, end);
    right_ = 0;
    right_.add_product(a_, p_prefix_[middle]);
    right_.subtract_product(b_, q_prefix_[middle]);
    right_.shift_by_a_word();
    if (left_ < right_) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return members_[first];
}

}  // namespace fairdraw::cpu
