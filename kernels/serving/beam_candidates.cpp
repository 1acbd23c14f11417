// Finds the best candidates of one live beam, which are the first `most` of a row in the order of
// (score, token id).
//
// Contract. The result equals that of sorting the whole row. The score is a function of the value
// that never decreases, with one or two roundings. So different values may have equal scores; among
// these, the lower token id comes first, whatever the values are.
//
// Algorithm. The row is not sorted.
//   1. scan finds the maximum, and the maximum of each group of 32 values. The `most` largest group
//      maxima are different values of the row, so the last of them is a lower bound of the most-th
//      largest value, and few more than `most` values are above it, unless the row has many ties.
//   2. From logits, the index of tiles (tile_passes.h) gives the log of the mass.
//   3. The bound is lowered to the smallest float of the same score, by bisection on floats: 32
//      steps of arithmetic. All values of equal score are then on one side.
//   4. Blocks with a maximum at or above the bound are read, and values at or above it listed with
//      their ids. When the list is full (many ties), it is cut to its best. Later values have
//      larger ids than all listed ones, so from then on only larger scores count, and a row of
//      equal values is cut once.
// Cost: the scan of the row (F1), the pass that sums weights if the values are logits (F2), and
// reading some blocks of 512 values.
//
// Numerics and determinism. The scores are defined in fairdraw/beam_search.h. The sum of weights is
// an integer, so no result depends on the instruction set.
#include "serving/beam_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
/// Factor by which the list may be longer than `most` before it is cut; the list may always grow to
/// kRoom entries. A cut takes time in proportion to the list's length, so its cost per listed value
/// stays small.
constexpr std::size_t kGrowth = 4;
constexpr std::size_t kRoom = 1024;

}  // namespace

void keep_best(std::vector<BeamCandidate>& candidates, std::size_t most) {
  if (candidates.size() <= most) return;
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(candidates.begin(), end, candidates.end(), comes_before);
  candidates.resize(most);
}

float BeamCandidates::score_of(float x) const {
  if (input_ == BeamInput::logprobs) return beam_score_ + x;
  const double distance = static_cast<double>(x) - static_cast<double>(max_);
  return beam_score_ + static_cast<float>(distance - log_mass_);
}

/// Returns the smallest finite float that has the same score as x.
float BeamCandidates::smallest_with_score_of(float x) const {
  const float score = score_of(x);
  std::int64_t low = order_key(-kLargest);
  std::int64_t high = order_key(x);
  while (low < high) {
    const std::int64_t middle = (low + high) >> 1;  // the shift rounds down, so low <= middle <
                                                    // high
    if (score_of(from_order_key(static_cast<std::int32_t>(middle))) >= score) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return from_order_key(static_cast<std::int32_t>(high));
}

/// Cuts the list to the `most` best candidates; from then on, a value is listed only if its score
/// is above that of the last candidate.
void BeamCandidates::prune() {
  keep_best(found_, max_candidates_);
  const float last = std::max_element(found_.begin(), found_.end(), comes_before)->score;
  // Finds the smallest value whose score is larger, by bisection between the cut and the maximum.
  std::int64_t low = order_key(cut_);
  std::int64_t high = static_cast<std::int64_t>(order_key(max_)) + 1;
  while (low < high) {
    const std::int64_t middle = (low + high) >> 1;
    if (score_of(from_order_key(static_cast<std::int32_t>(middle))) > last) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  cut_ = from_order_key(static_cast<std::int32_t>(high));
}

void BeamCandidates::scan(const float* x, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (!(x[i] >= cut_)) continue;
    const float score = score_of(x[i]);
    // The value is no candidate, because its score is outside of float32's range.
    if (score == -kInfinity) continue;
    found_.push_back({score, beam_, static_cast<std::int32_t>(i)});
    if (found_.size() == room_) prune();
  }
}

const std::vector<BeamCandidate>& BeamCandidates::find(
    const Passes& passes, const TilePasses& tile_passes, const float* x, std::size_t n,
    BeamInput input, float beam_score, std::int32_t beam, std::size_t most, RowStatus& status) {
  found_.clear();
  const std::size_t blocks = (n + kBlock - 1) / kBlock;
  reserve_with_slack(group_max_, blocks * kGroups);
  const RowScan scanned = passes.scan(x, n, group_max_.data());
  status = RowStatus::ok;
  if (scanned.has_nan || std::isnan(beam_score)) {
    status = RowStatus::nan_input;
  } else if (scanned.max == kInfinity || beam_score == kInfinity) {
    status = RowStatus::infinite_input;
  }
  if (status != RowStatus::ok || scanned.max == -kInfinity || beam_score == -kInfinity) {
    return found_;
  }
  input_ = input;
  beam_score_ = beam_score;
  beam_ = beam;
  max_ = scanned.max;
  max_candidates_ = most;
  room_ = std::max(kGrowth * most, kRoom);
  if (input == BeamInput::logits) log_mass_ = mass_.of_logits(tile_passes, x, n, max_);
  const float bound = bound_of_kth_largest(passes, group_max_.data(), blocks * kGroups, -kLargest,
                                           max_, most, scratch_);
  cut_ = bound == -kInfinity ? -kLargest : smallest_with_score_of(bound);
  if (blocks_.size() < blocks + kSlack) blocks_.resize(blocks + kSlack);
  const std::size_t found = passes.blocks_at_least(group_max_.data(), blocks, cut_, blocks_.data());
  for (std::size_t i = 0; i < found; ++i) {
    const float* group = group_max_.data() + blocks_[i] * kGroups;
    // The cut has risen, so that the group has no candidate any more.
    if (*std::max_element(group, group + kGroups) < cut_) continue;
    const std::size_t begin = blocks_[i] * kBlock;
    scan(x, begin, std::min(n, begin + kBlock));
  }
  keep_best(found_, max_candidates_);
  return found_;
}

}  // namespace fairdraw::cpu
