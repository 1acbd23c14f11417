#include "harness/run/checks/exact/missing_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace fairdraw::harness {

void MissingTokens::expect_one_of(std::span<const std::size_t> ids) {
  if (!missing_.empty()) return;
  // This is the smallest total probability that these tokens have in a sampler within its profile.
  double least = -row_.total_variation_bound;
  for (const std::size_t id : ids) least += row_.probability[id];
  const auto draws = static_cast<double>(counts_.draws);
  // This is a quick test for most tokens, whose probability is small: (1 - q)^n is above e^(-2 n q)
  // if q is below 3/4.
  if (least <= 0 || (least < 0.75 && draws * least < 20)) return;
  const double missed = std::exp(draws * std::log1p(-std::min(least, 1.0)));
  if (missed > kMissing) return;
  spent_ += missed;
  ++expected_;
  const bool drawn = std::any_of(ids.begin(), ids.end(),
                                 [this](std::size_t id) { return counts_.of_token[id] > 0; });
  if (drawn) return;
  const std::string which =
      ids.size() == 1 ? fmt::format("token {}", ids.front())
                      : fmt::format("each of {} tokens such as {}", ids.size(), ids.front());
  missing_ =
      fmt::format("{} (probability {:.3g}) is missing from {} draws", which, least, counts_.draws);
}

void MissingTokens::expect_last_ones() {
  std::vector<std::size_t> kept;
  for (std::size_t id = 0; id < row_.membership.size(); ++id) {
    if (row_.membership[id] == reference::Membership::in) kept.push_back(id);
  }
  std::stable_sort(kept.begin(), kept.end(), [this](std::size_t a, std::size_t b) {
    return row_.probability[a] > row_.probability[b];
  });
  for (std::size_t size = kept.size() / 2; size > 0; size /= 2) {
    expect_one_of(std::span(kept).last(size));
  }
}

}  // namespace fairdraw::harness
