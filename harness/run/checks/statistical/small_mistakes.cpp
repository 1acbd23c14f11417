#include "harness/run/checks/statistical/small_mistakes.h"

#include <algorithm>
#include <cmath>

#include "harness/run/checks/statistical/two_stages.h"
#include "harness/statistics/binomial.h"

namespace fairdraw::harness {
namespace {

// Returns the information of one draw in nats: the relative entropy of the right probability and
// the mistaken one. The more information a draw has, the fewer draws a test needs.
double told_by_a_draw(const CountedSet& set) {
  const auto part = [](double q, double p) { return q > 0 && p > 0 ? q * std::log(q / p) : 0.0; };
  return part(set.mistaken, set.right) + part(1 - set.mistaken, 1 - set.right);
}

}  // namespace

std::uint64_t draws_to_find(const CountedSet& set, double level) {
  const auto finds = [&](std::uint64_t draws) {
    return statistics::binomial_power(draws, set.right, set.mistaken, level) >=
           1 - kFalsePassRateOfALook;
  };
  const bool differs = set.right < set.mistaken || set.mistaken < set.right;
  if (!differs || !(set.right > 0 && set.right < 1)) return 0;
  std::uint64_t enough = 1;
  while (!finds(enough)) {
    if (enough >= statistics::kMaxTrials) return 0;
    enough *= 2;
  }
  // A precision of 1 part in 64 suffices, because power is a saw-tooth function of the number of
  // draws.
  std::uint64_t too_few = enough / 2;
  while (enough - too_few > std::max<std::uint64_t>(1, enough / 64)) {
    const std::uint64_t middle = too_few + (enough - too_few) / 2;
    (finds(middle) ? enough : too_few) = middle;
  }
  return enough;
}

void note_small_mistake(const std::string& mistake, std::span<const CountedSet> sets, double level,
                        std::size_t rows, CheckOutcome& outcome) {
  const auto best = std::ranges::max_element(sets, [](const CountedSet& a, const CountedSet& b) {
    return told_by_a_draw(a) < told_by_a_draw(b);
  });
  if (best == sets.end()) return;
  outcome.measures[kDrawsToFind + mistake] =
      static_cast<double>(draws_to_find(*best, level)) * static_cast<double>(rows);
  outcome.measures[kDifference + mistake] = std::abs(best->mistaken - best->right);
}

std::vector<double> at_other_temperature(std::span<const double> probability, double factor) {
  std::vector<double> mistaken;
  double sum = 0;
  for (const double p : probability) {
    mistaken.push_back(p > 0 ? std::pow(p, 1 / factor) : 0);
    sum += mistaken.back();
  }
  for (double& p : mistaken) p /= sum;
  return mistaken;
}

std::vector<double> with_words_of(int bits, std::span<const double> probability) {
  const double words = std::ldexp(1.0, bits);
  std::vector<double> mistaken;
  double sum = 0, before = 0;
  for (const double p : probability) {
    sum += p;
    // Counts the random words below the end of the token's interval: w / words < sum.
    const double until = std::min(words, std::ceil(sum * words));
    mistaken.push_back(p > 0 ? (until - before) / words : 0);
    if (p > 0) before = until;
  }
  return mistaken;
}

}  // namespace fairdraw::harness
