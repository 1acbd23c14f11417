#include "sharded/drafted_walk.h"

#include <algorithm>
#include <utility>

namespace fairdraw::sharded {

DraftedWalk::DraftedWalk(const DraftedRequestView& request, SiblingSampling siblings,
                         bool refuses_impossible, std::vector<NodeWeights> nodes,
                         std::vector<WeightPair> tokens)
    : request_(request),
      siblings_(siblings),
      refuses_impossible_(refuses_impossible),
      nodes_(std::move(nodes)),
      tokens_(std::move(tokens)) {}

/// The first child of the node from a drafted token on; the number of drafts where there is none.
std::int64_t DraftedWalk::child_from(std::int64_t draft) const {
  while (draft < request_.drafts() && request_.parent(draft) != node_) ++draft;
  return draft;
}

bool DraftedWalk::is_taken(std::int32_t token) const {
  return std::find(taken_.begin(), taken_.end(), token) != taken_.end();
}

void DraftedWalk::fail(RowStatus status) {
  status_ = status;
  done_ = true;
}

void DraftedWalk::enter_node() {
  entered_ = true;
  child_ = child_from(node_ + 1);
  sibling_ = 0;
  rejected_ = false;
  taken_.clear();
  rejections_.clear();
  draft_total_ = weights().draft;
  target_left_ = weights().target;
  draft_left_ = 0;  // times B, which is 0
}

const SiblingScales& DraftedWalk::scales() const {
  thread_local SiblingScales scales;
  scales.start();
  for (const Rejection& rejection : rejections_) {
    scales.reject(rejection.draft_total, rejection.target_left, rejection.draft_left);
  }
  return scales;
}

void DraftedWalk::advance() {
  while (!done_ && asks_ == Asks::nothing) {
    if (!entered_) {
      if (const RowStatus status = request_.target_status(node_); status != RowStatus::ok) {
        fail(status);
        return;
      }
      enter_node();
      if (child_ == request_.drafts()) {
        place_in_target(request_.word(depth(), Purpose::bonus, 0));
        return;
      }
      if (const RowStatus status = request_.draft_status(node_); status != RowStatus::ok) {
        fail(status);
        return;
      }
    }
    if (child_ == request_.drafts()) {
      place_in_left();
      return;
    }
    const std::int32_t token = request_.token(child_);
    const WeightPair& weights = tokens_[static_cast<std::size_t>(child_)];
    if (refuses_impossible_ && (weights.draft == 0 || is_taken(token))) {
      fail(RowStatus::impossible_draft);
      return;
    }
    const std::uint64_t word = request_.word(depth(), Purpose::accept, sibling_);
    if (scales().accepts(word, weights.target, weights.draft, draft_total_, target_left_,
                         draft_left_)) {
      path_.push_back(static_cast<std::int32_t>(child_));
      node_ = child_;
      entered_ = false;
      continue;
    }
    rejections_.push_back({draft_total_, target_left_, draft_left_});
    rejected_ = true;
    if (siblings_ == SiblingSampling::without_replacement) {
      draft_total_ -= weights.draft;
      taken_.push_back(token);
    }
    asks_ = Asks::sums;
  }
}

bool DraftedWalk::take_sums(const std::vector<WeightPair>& by_shard) {
  left_ = by_shard;
  uint128_t target = 0, draft = 0;
  for (const WeightPair& part : left_) {
    target += part.target;
    draft += part.draft;
  }
  if (target > weights().target || draft > draft_total_) return false;
  target_left_ = static_cast<std::uint64_t>(target);
  draft_left_ = static_cast<std::uint64_t>(draft);
  child_ = child_from(child_ + 1);
  ++sibling_;
  asks_ = Asks::nothing;
  return true;
}

void DraftedWalk::take_token(std::int32_t token) {
  last_token_ = token;
  asks_ = Asks::nothing;
  done_ = true;
}

// --- Tokens
// ---------------------------------------------------------------------------------------

/// By prefix sums of P.
void DraftedWalk::place_in_target(std::uint64_t word) {
  rejected_ = false;
  place_ = multiply_high(word, weights().target);
  const std::vector<std::uint64_t>& parts = weights().target_by_shard;
  owner_ = 0;
  while (owner_ + 1 < static_cast<int>(parts.size()) &&
         place_ >= parts[static_cast<std::size_t>(owner_)]) {
    place_ -= parts[static_cast<std::size_t>(owner_++)];
  }
  asks_ = Asks::token;
}

/// By prefix sums of what is left. Nothing is left only where the two distributions are equal, and
/// the rejected token weighs 0 in both: the target itself is drawn from there.
void DraftedWalk::place_in_left() {
  word_ = request_.word(depth(), Purpose::recover, 0);
  if (target_left_ == 0) {
    place_in_target(word_);
    return;
  }
  const SiblingScales& of_node = scales();
  in_front_ = {};
  owner_ = 0;
  for (; owner_ + 1 < static_cast<int>(left_.size()); ++owner_) {
    const WeightPair& part = left_[static_cast<std::size_t>(owner_)];
    const WeightPair until{in_front_.target + part.target, in_front_.draft + part.draft};
    if (of_node.prefix_exceeds(word_, until.target, until.draft, target_left_, draft_left_)) break;
    in_front_ = until;
  }
  asks_ = Asks::token;
}

// --- What a shard says
// ----------------------------------------------------------------------------

WeightPair DraftedWalk::part_of_left(const cpu::DistributionWeights& target,
                                     const cpu::DistributionWeights& draft, std::size_t n) const {
  const SiblingScales& of_node = scales();
  const SiblingScales::Leading leading = of_node.leading();
  WeightPair part;
  for (std::size_t i = 0; i < n; ++i) {
    if (!of_node.is_left(target.weight[i], draft.weight[i], leading)) continue;
    part.target += target.weight[i];
    part.draft += draft.weight[i];
  }
  return part;
}

std::int64_t DraftedWalk::drawn_position(const cpu::DistributionWeights& target,
                                         const cpu::DistributionWeights& draft,
                                         std::size_t n) const {
  if (!rejected_) {
    std::uint64_t place = place_;
    for (std::size_t i = 0; i < n; ++i) {
      if (place < target.weight[i]) return static_cast<std::int64_t>(i);
      place -= target.weight[i];
    }
    return -1;
  }
  const SiblingScales& of_node = scales();
  const SiblingScales::Leading leading = of_node.leading();
  WeightPair until = in_front_;
  for (std::size_t i = 0; i < n; ++i) {
    if (!of_node.is_left(target.weight[i], draft.weight[i], leading)) continue;
    until.target += target.weight[i];
    until.draft += draft.weight[i];
    if (of_node.prefix_exceeds(word_, until.target, until.draft, target_left_, draft_left_)) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace fairdraw::sharded
