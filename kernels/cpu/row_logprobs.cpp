#include "cpu/row_logprobs.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFinite = std::numeric_limits<float>::max();

/// Limits a value to the finite floats, because -inf is reserved for tokens without a value.
inline float finite(double value) {
  return static_cast<float>(std::max(-static_cast<double>(kLargestFinite), value));
}

}  // namespace

ScannedRow RowLogprobs::scan(const float* x, std::size_t n) {
  const std::size_t groups = (n + kBlock - 1) / kBlock * kGroups;
  if (group_max_.size() < groups) group_max_.resize(groups);
  ScannedRow row;
  row.x = x;
  row.n = n;
  row.group_max = group_max_.data();
  row.max = passes_->scan(x, n, group_max_.data()).max;
  row.low = -kLargestFinite;
  row.tie_end = n;
  return row;
}

double RowLogprobs::log_mass_of(const ScannedRow& row) {
  return mass_.of_logits(*tile_passes_, row.x, row.n, row.max);
}

void RowLogprobs::begin(const ScannedRow& row, LogprobsMode mode, RankRule rank_rule,
                        float temperature, double log_mass) {
  row_ = row;
  mode_ = mode;
  rank_rule_ = rank_rule;
  temperature_ = temperature;
  log_mass_ = log_mass;
  top_size_ = 0;
  top_.clear();
}

/// Calls `use` with a function that computes the reported value of a token from the token's logit.
template <class Use>
void RowLogprobs::with_value_of(const Use& use) const {
  const float temperature = temperature_;
  const float max = row_.max;
  const double divisor = temperature == 0.0F ? 1.0 : static_cast<double>(temperature);
  const double log_mass = log_mass_;
  if (!is_logprobs(mode_)) {
    if (mode_ == LogprobsMode::raw_logits || temperature == 0.0F) {
      use([](float x) { return x; });
    } else {
      use([=](float x) {
        return std::max(-kLargestFinite, std::min(kLargestFinite, x / temperature));
      });
    }
    return;
  }
  use([=](float x) { return finite(log_probability(x, max, divisor, log_mass)); });
}

float RowLogprobs::value_of(float x) const {
  float value = 0;
  with_value_of([&value, x](const auto& function) { value = function(x); });
  return value;
}

float RowLogprobs::value(std::int32_t token) const {
  const auto position = static_cast<std::size_t>(token);
  return counts(position) ? value_of(row_.x[position]) : -kInfinity;
}

void RowLogprobs::write_all(float* values) const {
  const float* x = row_.x;
  const std::size_t n = row_.n;
  const float low = row_.low;
  with_value_of([=](const auto& function) {
    for (std::size_t i = 0; i < n; ++i) {
      const float value = function(x[i]);  // computed for all tokens, so that the loop has no
                                           // branch
      values[i] = x[i] >= low ? value : -kInfinity;
    }
  });
  for (std::size_t i = row_.tie_end; i < n; ++i) {
    if (x[i] == low) values[i] = -kInfinity;
  }
}

// --- The n largest -----------------------------------------------------------------------------

std::size_t RowLogprobs::find_hot_blocks(float low) {
  if (hot_blocks_.size() < blocks()) hot_blocks_.resize(blocks());
  return passes_->blocks_at_least(row_.group_max, blocks(), low, hot_blocks_.data());
}

/// Returns the largest value that was found such that at least n of the reported tokens have values
/// that are not smaller. If fewer than n tokens are reported, the result is row_.low.
float RowLogprobs::threshold_of_top(std::size_t n) {
  if (row_.list != nullptr) {
    const float from = std::max(row_.low, row_.list_low);
    const std::size_t listed = passes_->count_at_least(row_.list, row_.list_size, from);
    if (listed >= n) {
      return kth_largest(*passes_, row_.list, row_.list_size, from, row_.max, n, scratch_);
    }
    if (from == row_.low) return row_.low;
  }
  const float bound = bound_of_kth_largest(*passes_, row_.group_max, blocks() * kGroups, row_.low,
                                           row_.max, n, scratch_);
  if (bound == row_.max) return bound;
  const float from = std::max(row_.low, bound);
  const std::size_t hot = find_hot_blocks(from);
  std::size_t size = 0;
  for (std::size_t i = 0; i < hot; ++i) {
    const std::size_t begin = hot_blocks_[i] * kBlock;
    if (list_.size() < size + kBlock + kSlack) list_.resize(2 * size + kBlock + kSlack);
    size += passes_->collect_few(row_.x + begin, std::min(kBlock, row_.n - begin), from,
                                 list_.data() + size);
  }
  if (size <= n) return from;
  return kth_largest(*passes_, list_.data(), size, from, row_.max, n, scratch_);
}

/// Calls take(position) for the values >= low in the order of their ids, until the call returns
/// false.
template <class Take>
void RowLogprobs::for_each_at_least(float low, const Take& take) {
  const std::size_t hot = find_hot_blocks(low);
  std::uint32_t bits[kBlock / 32];
  for (std::size_t i = 0; i < hot; ++i) {
    const std::size_t begin = hot_blocks_[i] * kBlock;
    const std::size_t length = std::min(kBlock, row_.n - begin);
    passes_->mask_bits(row_.x + begin, length, low, bits);
    for (std::size_t word = 0; word * 32 < length; ++word) {
      for (std::uint32_t rest = bits[word]; rest != 0; rest &= rest - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(rest));
        if (!take(begin + word * 32 + bit)) return;
      }
    }
  }
}

void RowLogprobs::find_top(std::size_t n) {
  top_size_ = n;
  top_.clear();
  const float threshold = threshold_of_top(n);
  const auto add = [this](std::size_t position) {
    top_.push_back({row_.x[position], static_cast<std::int32_t>(position)});
  };
  // Either fewer than n values are above the threshold, or the threshold is between the n-th value
  // and the next one.
  if (threshold < row_.max) {
    for_each_at_least(next_above(threshold), [&](std::size_t position) {
      add(position);
      return true;
    });
  }
  if (top_.size() < n) {
    const std::size_t end = threshold == row_.low ? row_.tie_end : row_.n;
    for_each_at_least(threshold, [&](std::size_t position) {
      if (position >= end) return false;
      if (row_.x[position] == threshold) add(position);
      return top_.size() < n;
    });
  }
  std::sort(top_.begin(), top_.end(), [](const Entry& a, const Entry& b) {
    return a.x > b.x || (a.x == b.x && a.token < b.token);
  });
}

void RowLogprobs::write_top(std::int32_t n, std::int32_t* ids, float* values) {
  const auto wanted = static_cast<std::size_t>(n);
  if (top_size_ != wanted) find_top(wanted);
  for (std::size_t i = 0; i < wanted; ++i) {
    const bool there = i < top_.size();
    if (ids != nullptr) ids[i] = there ? top_[i].token : -1;
    if (values != nullptr) values[i] = there ? value_of(top_[i].x) : -kInfinity;
  }
}

// --- Ranks -------------------------------------------------------------------------------------

std::int32_t RowLogprobs::rank(std::int32_t token) {
  const auto position = static_cast<std::size_t>(token);
  if (!counts(position)) return 0;
  const float x = row_.x[position];
  if (!top_.empty() && x > top_.back().x) {
    // All reported tokens with values >= x are among the n largest.
    const bool at_least = rank_rule_ == RankRule::at_least;
    std::int32_t rank = 0;
    for (const Entry& entry : top_) {
      if (entry.x > x || (entry.x == x && (at_least || entry.token <= token))) ++rank;
    }
    return rank;
  }
  // With the rule `position`, equal values count up to this position; with the rule `at_least`, all
  // equal values count.
  const std::size_t end = rank_rule_ == RankRule::position ? position + 1
                          : x == row_.low                  ? row_.tie_end
                                                           : row_.n;
  const float above = next_above(x);
  const std::size_t hot = find_hot_blocks(x);
  std::size_t count = 0;
  for (std::size_t i = 0; i < hot; ++i) {
    const std::size_t begin = hot_blocks_[i] * kBlock;
    const std::size_t length = std::min(kBlock, row_.n - begin);
    const std::size_t with_ties = std::clamp(end, begin, begin + length) - begin;
    count += passes_->count_at_least(row_.x + begin, with_ties, x);
    count += passes_->count_at_least(row_.x + begin + with_ties, length - with_ties, above);
  }
  return static_cast<std::int32_t>(count);
}

}  // namespace fairdraw::cpu
