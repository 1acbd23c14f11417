// Compares two samplers on the same input, one of which has a change that must not change the
// distribution, or the results.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/run/calls/draws.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/certain_distribution.h"
#include "harness/statistics/statistics.h"
#include "harness/statistics/token_sets.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// Cells of probability detect differences that are spread over many tokens, while sets detect
// differences in a few tokens.
constexpr double kDistanceShare = 0.5, kSetsShare = 0.5;
constexpr std::uint32_t kCells = 16;  // more cells have more noise: with 10^5 draws each, 16 cells
                                      // find a distance of 0.038
constexpr double kExpectedOfEach = 100;

// The counts of one sampler, without the tokens that the profile leaves open; both samplers are
// conditioned on the other tokens.
struct Sample {
  std::vector<std::uint64_t> of_token;   // [vocab]
  std::uint64_t draws = 0, outside = 0;  // `outside`: draws of excluded tokens
};

Sample draw(Sampler& sampler, const CheckInput& input, const Request& request,
            const reference::RealDistribution& distribution, std::uint64_t seed,
            CheckOutcome& outcome) {
  Counts counts = count_draws(sampler, request, input.draws, seed);
  outcome.draws += counts.draws;
  const std::string& name = sampler.description().name;
  if (!counts.trouble.empty()) outcome.fail(name + ": " + counts.trouble);
  if (counts.no_token > 0) {
    outcome.fail(fmt::format("{}: {} of {} draws gave no token of the vocabulary", name,
                             counts.no_token, counts.draws));
  }
  Sample sample;
  for (std::size_t token = 0; token < counts.of_token.size(); ++token) {
    const bool is_out = distribution.membership[token] == Membership::out;
    if (!is_out && !distribution.has_frequency(token)) counts.of_token[token] = 0;
    if (is_out) sample.outside += counts.of_token[token];
    sample.draws += counts.of_token[token];
  }
  sample.of_token = std::move(counts.of_token);
  if (sample.draws == 0) outcome.fail(name + ": no draw gave a token that is not open");
  return sample;
}

// Bounds on the distance between the distributions of two right samplers, if each token's weight
// has the largest possible error in either sampler. Two samplers with the same integer weights have
// the same distribution.
class DistributionError {
 public:
  DistributionError(const CheckInput& input, const Sampler& other,
                    const CertainDistribution& distribution)
      : distribution_(distribution) {
    if (input.exact() && other.description().exact_integer) {
      errors_.assign(distribution.probability.size(), 0);
      return;
    }
    errors_ = weight_errors(input, distribution);
    for (std::size_t token = 0; token < errors_.size(); ++token) {
      all_ += distribution.probability[token] * errors_[token];
    }
  }

  /// Returns the total variation distance, which is twice the distance of one sampler from the
  /// distribution, because |w' - w| sums to at most all_.
  double distance() const { return std::min(1.0, 2 * all_); }

  /// Returns the ratio of the odds that a set of mass p has in the two samplers, if the set's
  /// weights have the total error `error`. The odds are the weight of the set over the weight of
  /// the rest, with the factors 1 +- r and 1 +- q in each sampler. The odds ratio is infinite if
  /// the errors are as large as the weights.
  double odds_ratio(double p, double error) const {
    if (all_ == 0 || p <= 0 || p >= 1) return 1;
    const double r = error / p;
    const double q = std::max(0.0, all_ - error) / (1 - p);
    if (r >= 1 || q >= 1) return std::numeric_limits<double>::infinity();
    return (1 + r) / (1 - r) * (1 + q) / (1 - q);
  }

  double of(std::size_t token) const { return distribution_.probability[token] * errors_[token]; }

 private:
  const CertainDistribution& distribution_;
  std::vector<double> errors_;
  double all_ = 0;
};

// The counts of one set of tokens in both samplers.
struct SetCounts {
  std::uint64_t a = 0, b = 0;
  double mass = 0, error = 0;
};

std::vector<SetCounts> add_up(const statistics::TokenSets& sets, const Sample& a, const Sample& b,
                              const CertainDistribution& distribution,
                              const DistributionError& error) {
  std::vector<SetCounts> groups;
  for (std::size_t token = 0; token < sets.group_of.size(); ++token) {
    const std::uint32_t group = sets.group_of[token];
    if (group == statistics::kNoCell) continue;
    if (group >= groups.size()) groups.resize(group + 1);
    groups[group].a += a.of_token[token];
    groups[group].b += b.of_token[token];
    groups[group].mass += distribution.probability[token];
    groups[group].error += error.of(token);
  }
  return groups;
}

// The set with the smallest p-value; all sets have the same level.
struct Strongest {
  double p_value = 1;
  std::size_t sets = 0;
  std::string what = "";
};

Strongest strongest_set(const Sample& a, const Sample& b, const CertainDistribution& distribution,
                        const DistributionError& error) {
  Strongest strongest;
  const auto look_at = [&](const SetCounts& counts, const std::string& name) {
    ++strongest.sets;
    const double odds_ratio = error.odds_ratio(counts.mass, counts.error);
    if (std::isinf(odds_ratio)) return;  // right samplers may differ here by any factor
    const double p_value =
        statistics::two_sample_set_p_value(counts.a, a.draws, counts.b, b.draws, odds_ratio);
    if (p_value >= strongest.p_value) return;
    strongest.p_value = p_value;
    strongest.what = fmt::format("{} was drawn {} times in {}, and {} times in {}", name, counts.a,
                                 a.draws, counts.b, b.draws);
  };
  look_at({a.outside, b.outside, 0, 0}, "a token outside of the support");
  for (const statistics::TokenSets& sets : statistics::directed_sets(distribution.probability)) {
    const std::vector<SetCounts> groups = add_up(sets, a, b, distribution, error);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      look_at(groups[group], fmt::format("{}: set {}", sets.name, group));
    }
  }
  return strongest;
}

Lack missing_in_either(const Sampler& one, const Sampler& other, const Request& request) {
  Lack lack = lack_for(one.description(), request);
  return lack.empty() ? lack_for(other.description(), request) : lack;
}

// Returns the counts by cell; the last cell has everything outside of the distribution.
std::vector<std::uint64_t> by_cell(const statistics::Pooling& pooling, const Sample& sample) {
  statistics::PooledCounts pooled = statistics::pool_counts(pooling, sample.of_token);
  pooled.counts.push_back(pooled.outside);
  return pooled.counts;
}

}  // namespace

CheckOutcome check_same_distribution(const CheckInput& input, Sampler& other) {
  const Request request = make_request(input, 0, 1);
  if (const Lack lacks = missing_in_either(*input.sampler, other, request); !lacks.empty()) {
    return skipped(lacks);
  }
  const reference::RealDistribution distribution = distribution_of(input, request, 0);
  if (!distribution.defined || distribution.must_fail) {
    return skipped("semantics " + input.semantics.name + " gives this row no distribution");
  }
  const CertainDistribution certain = certain_distribution(distribution);
  const std::uint64_t expected = certain_draws(input.draws, distribution);
  if (certain.support < 2 || expected == 0)
    return skipped("the support is one token: one distribution");

  const DistributionError error(input, other, certain);
  const statistics::Pooling pooling =
      statistics::pool_by_probability(certain.probability, expected, kExpectedOfEach, kCells);
  const auto cells = static_cast<std::uint32_t>(pooling.probability.size() + 1);
  const double distance_level = input.false_fail_rate * kDistanceShare;
  const double found = statistics::two_sample_min_discrepancy(
      cells, expected, expected, error.distance(), distance_level, kFalsePassRate);
  CheckOutcome outcome;
  if (found > input.declared_discrepancy) {
    outcome = underpowered(
        fmt::format("{} draws of each find a total variation of {:.5f}, the case states {:.5f}",
                    input.draws, found, input.declared_discrepancy));
    outcome.min_discrepancy = found;
    return outcome;
  }
  outcome.min_discrepancy = found;
  outcome.rows = 1;
  outcome.dof = cells - 1.0;

  const Sample a =
      draw(*input.sampler, input, request, distribution, mixed(input.seed, 0), outcome);
  const Sample b = draw(other, input, request, distribution, mixed(input.seed, 1), outcome);
  if (outcome.failed()) return outcome;
  const double distance = statistics::two_sample_distance(by_cell(pooling, a), by_cell(pooling, b));
  const double distance_p =
      statistics::two_sample_distance_bound(distance, cells, a.draws, b.draws, error.distance());
  const Strongest set = strongest_set(a, b, certain, error);
  const double set_level = input.false_fail_rate * kSetsShare / static_cast<double>(set.sets);
  outcome.spend(input.false_fail_rate);
  outcome.statistic = outcome.total_variation = distance;
  outcome.p_value =
      std::min(1.0, 2 * std::min(distance_p, set.p_value * static_cast<double>(set.sets)));
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.measures["cells"] = cells;
  outcome.measures["sets"] = static_cast<double>(set.sets);
  outcome.measures["law_distance"] = error.distance();
  if (set.p_value < set_level) {
    outcome.fail(fmt::format("{} (p {:.2e}, level {:.1e})", set.what, set.p_value, set_level));
  } else if (distance_p < distance_level) {
    outcome.fail(
        fmt::format("the distributions are {:.4f} apart over {} cells, {:.4f} is what one "
                    "distribution gives (p {:.2e}, level "
                    "{:.1e})",
                    distance, cells,
                    statistics::two_sample_critical_distance(cells, a.draws, b.draws,
                                                             error.distance(), distance_level),
                    distance_p, distance_level));
  } else {
    outcome.message =
        fmt::format("{} and {} draw alike: {:.4f} apart over {} cells",
                    input.sampler->description().name, other.description().name, distance, cells);
  }
  return outcome;
}

namespace {

// Compares the masks and support sizes of one row; `distribution` says which tokens are open,
// unless the two samplers are bit-identical.
void compare_row(const Request& request, const Response& one, const Response& two, std::int64_t row,
                 std::int64_t number, const reference::RealDistribution* distribution,
                 CheckOutcome& outcome) {
  const auto at = static_cast<std::size_t>(row);
  const std::string where = fmt::format("row {} ({})", number, describe(request.parameters[at]));
  const bool open = distribution != nullptr && distribution->ambiguous_mass > 0;
  const bool both_sizes = !one.support_size.empty() && !two.support_size.empty();
  if (both_sizes && !open && one.support_size[at] != two.support_size[at]) {
    outcome.fail(fmt::format("{}: support sizes {} and {}", where, one.support_size[at],
                             two.support_size[at]));
  }
  if (one.mask.empty() || two.mask.empty()) return;
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    const bool is_open =
        distribution != nullptr &&
        distribution->membership[static_cast<std::size_t>(token)] == Membership::ambiguous;
    const bool kept = one.kept(row, request.vocab, token);
    if (is_open || kept == two.kept(row, request.vocab, token)) continue;
    outcome.fail(fmt::format(
        "{}: token {} (logit {}) is {}, the other's {} it", where, token, request.row(row)[token],
        kept ? "in the mask" : "missing from the mask", kept ? "lacks" : "holds"));
    return;
  }
}

void compare_tokens(const Request& request, const Response& one, const Response& two,
                    std::int64_t first, CheckOutcome& outcome) {
  for (std::int64_t row = 0; row < request.rows && !outcome.failed(); ++row) {
    const auto at = static_cast<std::size_t>(row);
    const bool statuses = !one.statuses.empty() && !two.statuses.empty();
    ++outcome.draws;
    if (one.tokens[at] != two.tokens[at]) {
      outcome.fail(fmt::format("row {} ({}), seed {}: tokens {} and {}", first + row,
                               describe(request.parameters[at]), request.seed[at], one.tokens[at],
                               two.tokens[at]));
    } else if (statuses && one.statuses[at] != two.statuses[at]) {
      outcome.fail(fmt::format("row {} ({}): statuses {} and {}", first + row,
                               describe(request.parameters[at]), one.statuses[at],
                               two.statuses[at]));
    }
  }
}

}  // namespace

CheckOutcome check_same_results(const CheckInput& input, Sampler& other) {
  const SamplerDescription& one = input.sampler->description();
  const SamplerDescription& two = other.description();
  const bool masks =
      input.row_input == RowInput::logits &&
      ((one.reports_mask && two.reports_mask) || (one.reports_support && two.reports_support));
  const bool tokens = input.exact() && two.exact_integer;
  if (!masks && !tokens) {
    return skipped(Lack{"the two report no masks, and do not both claim the integer arithmetic",
                        "reports_mask"});
  }
  CheckOutcome outcome;
  std::uint64_t judged = 0;
  const std::int64_t chunk =
      std::max<std::int64_t>(1, (std::int64_t{1} << 20) / input.logits->vocab());
  for (std::int64_t first = 0; first < input.rows && !outcome.failed(); first += chunk) {
    const Request request = make_request(input, first, std::min(chunk, input.rows - first));
    if (const Lack lacks = missing_in_either(*input.sampler, other, request); !lacks.empty()) {
      return skipped(lacks);
    }
    const WantedResults wanted = {.statuses = true, .support_size = masks, .mask = masks};
    const Response a = run_request(*input.sampler, request, reported(one, request, wanted));
    const Response b = run_request(other, request, reported(two, request, wanted));
    if (!a.ran()) return outcome.fail(one.name + ": " + a.trouble());
    if (!b.ran()) return outcome.fail(two.name + ": " + b.trouble());
    for (std::int64_t row = 0; row < request.rows && !outcome.failed(); ++row) {
      ++outcome.rows;
      if (tokens) {
        compare_row(request, a, b, row, first + row, nullptr, outcome);
        ++judged;
        continue;
      }
      const reference::RealDistribution distribution = distribution_of(input, request, row);
      if (!distribution.defined || distribution.must_fail)
        continue;  // the profile defines no mask for such a row
      ++judged;
      compare_row(request, a, b, row, first + row, &distribution, outcome);
    }
    if (tokens) compare_tokens(request, a, b, first, outcome);
  }
  if (outcome.failed()) return outcome;
  if (judged == 0) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  outcome.message = fmt::format("{} and {} agree on {} rows", one.name, two.name, judged);
  return outcome;
}

}  // namespace fairdraw::harness
