#include "suites/benchmarks/peers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fairdraw::suites {

std::int32_t SortingPeer::sample(const float* logits, std::size_t vocab,
                                 const reference::RowParameters& parameters, float uniform) {
  entries_.resize(vocab);
  for (std::size_t i = 0; i < vocab; ++i) entries_[i] = {logits[i], static_cast<std::int32_t>(i)};
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  if (parameters.temperature == 0) return entries_[0].id;
  std::size_t kept = vocab;
  if (parameters.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(parameters.top_k));
  probs_.resize(kept);
  float sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    probs_[i] = std::exp((entries_[i].logit - entries_[0].logit) / parameters.temperature);
    sum += probs_[i];
  }
  if (parameters.min_p > 0) {
    while (kept > 1 && probs_[kept - 1] < parameters.min_p) --kept;
    sum = std::accumulate(probs_.begin(), probs_.begin() + static_cast<std::ptrdiff_t>(kept), 0.0F);
  }
  float nucleus = 0;
  std::size_t last = 0;
  for (; last < kept; ++last) {
    nucleus += probs_[last];
    if (nucleus >= parameters.top_p * sum) break;
  }
  last = std::min(last, kept - 1);
  const float position = uniform * nucleus;
  float before = 0;
  for (std::size_t i = 0; i <= last; ++i) {
    before += probs_[i];
    if (before > position) return entries_[i].id;
  }
  return entries_[last].id;
}

std::int32_t SoftmaxPeer::sample(const float* logits, std::size_t vocab, float temperature,
                                 float uniform) {
  const float largest = *std::max_element(logits, logits + vocab);
  probs_.resize(vocab);
  float sum = 0;
  for (std::size_t i = 0; i < vocab; ++i) {
    probs_[i] = std::exp((logits[i] - largest) / temperature);
    sum += probs_[i];
  }
  const float position = uniform * sum;
  float before = 0;
  for (std::size_t i = 0; i < vocab; ++i) {
    before += probs_[i];
    if (before > position) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(vocab) - 1;
}

}  // namespace fairdraw::suites
