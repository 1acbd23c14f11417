// Draws of one row against its law, as counts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/run/checks.h"
#include "harness/run/draws.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// Shares of the case's budget.
constexpr double kChiSquaredShare = 0.1, kGShare = 0.4, kDkwmShare = 0.5;
constexpr std::size_t kOrderings = 2;
// Where Pearson's chi-squared may decide: statistics, "E >= 400 for alpha near 1e-12".
constexpr double kSmallestExpected = 400;
constexpr std::size_t kSmallestCells = 10;
// More cells see finer differences, fewer see smaller ones. 256 finds a total variation of 0.01
// with a million draws.
constexpr std::uint32_t kLargestCells = 256;

// The law over the tokens that belong to the support beyond doubt, as a law of its own: draws
// that fall on an ambiguous token are left out on both sides, so their part cannot matter.
struct CertainLaw {
  std::vector<double> probability;  // [vocab], 0 for tokens that are out or ambiguous
  std::size_t support = 0;
  double ambiguous_mass = 0;
};

CertainLaw certain_law(const reference::RealLaw& law) {
  CertainLaw certain;
  certain.ambiguous_mass = law.ambiguous_mass;
  certain.probability.assign(law.probability.size(), 0);
  double sum = 0;
  for (std::size_t token = 0; token < law.probability.size(); ++token) {
    if (law.membership[token] != Membership::in || law.probability[token] <= 0) continue;
    certain.probability[token] = law.probability[token];
    sum += law.probability[token];
    ++certain.support;
  }
  for (double& probability : certain.probability) probability /= sum;
  return certain;
}

// Draws that fall on certain tokens, expected.
std::uint64_t certain_draws(std::uint64_t draws, const reference::RealLaw& law) {
  return static_cast<std::uint64_t>(static_cast<double>(draws) *
                                    std::max(0.0, 1 - law.ambiguous_mass));
}

struct Drawn {
  std::vector<std::uint64_t> of_token;  // counts of certain tokens, 0 elsewhere
  std::uint64_t draws = 0;              // their sum
};

// Draws, and judges what needs no statistics.
Drawn draw(const CheckInput& input, const Request& request, const reference::RealLaw& law,
           CheckOutcome& outcome) {
  Counts counts = count_draws(*input.sampler, request, input.draws, input.seed);
  outcome.draws = counts.draws;
  if (!counts.trouble.empty()) outcome.fail(counts.trouble);
  if (counts.no_token > 0) {
    outcome.fail(fmt::format("{} of {} draws gave no token of the vocabulary", counts.no_token,
                             counts.draws));
  }
  Drawn drawn;
  for (std::size_t token = 0; token < counts.of_token.size(); ++token) {
    if (law.membership[token] == Membership::out && counts.of_token[token] > 0) {
      outcome.fail(
          fmt::format("token {} (logit {}) was drawn {} times and is outside of the "
                      "support ({})",
                      token, request.row(0)[token], counts.of_token[token],
                      describe(request.parameters.front())));
    }
    if (law.membership[token] != Membership::in) counts.of_token[token] = 0;
    drawn.draws += counts.of_token[token];
  }
  drawn.of_token = std::move(counts.of_token);
  return drawn;
}

double distance_in_order(const std::vector<std::uint32_t>& order, const Drawn& drawn,
                         const CertainLaw& law) {
  std::vector<std::uint64_t> counts;
  std::vector<double> probability;
  for (const std::uint32_t token : order) {
    counts.push_back(drawn.of_token[token]);
    probability.push_back(law.probability[token]);
  }
  return statistics::cdf_distance(counts, probability);
}

void judge_orderings(const CheckInput& input, const Drawn& drawn, const CertainLaw& law,
                     CheckOutcome& outcome) {
  std::vector<std::uint32_t> by_id(law.probability.size());
  std::iota(by_id.begin(), by_id.end(), 0U);
  std::vector<std::uint32_t> by_probability = by_id;
  std::stable_sort(
      by_probability.begin(), by_probability.end(),
      [&law](std::uint32_t a, std::uint32_t b) { return law.probability[a] > law.probability[b]; });
  const double level = input.false_fail_rate * kDkwmShare / kOrderings;
  const auto judge = [&](const char* name, const std::vector<std::uint32_t>& order) {
    const double distance = distance_in_order(order, drawn, law);
    const double p_value = statistics::dkwm_p_value(distance, drawn.draws);
    outcome.spent += level;
    outcome.measures[fmt::format("dkwm_{}_distance", name)] = distance;
    outcome.measures[fmt::format("dkwm_{}_p_value", name)] = p_value;
    if (p_value >= level) return;
    outcome.fail(
        fmt::format("the distribution function over tokens by {} is off by {:.4g} after "
                    "{} draws (p {:.2e}, level {:.1e})",
                    name, distance, drawn.draws, p_value, level));
  };
  judge("probability", by_probability);
  judge("id", by_id);
}

}  // namespace

CheckOutcome check_chi_squared(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request request = make_request(input, 0, 1);
  if (const std::string lacks = missing_ability(sampler, request); !lacks.empty()) {
    return skipped(lacks);
  }
  const reference::RealLaw law = law_of(input, request, 0);
  if (!law.defined || law.must_fail) {
    return skipped("semantics " + input.semantics.name + " gives this row no law");
  }
  const CertainLaw certain = certain_law(law);
  if (certain.support == 0) return skipped("every token of the support is ambiguous");
  const std::uint64_t design_draws = certain_draws(input.draws, law);
  const statistics::Pooling pooling = statistics::pool_by_probability(
      certain.probability, design_draws, kSmallestExpected, kLargestCells);
  const std::size_t cells = pooling.probability.size();
  if (cells < 2) {
    return underpowered(fmt::format("{} draws leave one cell of expected count {}", input.draws,
                                    kSmallestExpected));
  }

  // Design: what these draws find, whatever they turn out to be.
  const double g_level = input.false_fail_rate * kGShare;
  const double chi_squared_level = input.false_fail_rate * kChiSquaredShare;
  const bool pearson_decides =
      cells >= kSmallestCells && pooling.smallest_expected >= kSmallestExpected;
  const auto dof = static_cast<double>(cells - 1);
  double min_discrepancy = statistics::g_min_discrepancy(
      design_draws, static_cast<std::uint32_t>(cells), g_level, kFalsePassRate);
  if (pearson_decides) {
    min_discrepancy =
        std::min(min_discrepancy, statistics::chi_squared_min_discrepancy(
                                      design_draws, dof, chi_squared_level, kFalsePassRate));
  }
  if (min_discrepancy > input.declared_discrepancy) {
    CheckOutcome outcome = underpowered(
        fmt::format("{} draws find a total variation of {:.4f}, the case states {:.4f}",
                    input.draws, min_discrepancy, input.declared_discrepancy));
    outcome.min_discrepancy = min_discrepancy;
    return outcome;
  }

  CheckOutcome outcome;
  outcome.rows = 1;
  outcome.min_discrepancy = min_discrepancy;
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.measures["cells"] = static_cast<double>(cells);
  outcome.measures["support"] = static_cast<double>(certain.support);
  outcome.measures["ambiguous_mass"] = certain.ambiguous_mass;
  outcome.measures["smallest_expected"] = pooling.smallest_expected;
  const Drawn drawn = draw(input, request, law, outcome);
  if (outcome.failed() || drawn.draws == 0) return outcome;

  std::vector<std::uint64_t> cell_counts(cells);
  for (std::size_t token = 0; token < drawn.of_token.size(); ++token) {
    if (drawn.of_token[token] > 0) cell_counts[pooling.cell_of[token]] += drawn.of_token[token];
  }
  const statistics::GoodnessOfFit fit =
      statistics::goodness_of_fit(cell_counts, pooling.probability);
  outcome.statistic = fit.chi_squared;
  outcome.dof = fit.dof;
  outcome.p_value = fit.chi_squared_p_value;
  outcome.total_variation = fit.total_variation;
  outcome.measures["g"] = fit.g;
  outcome.measures["g_p_bound"] = fit.g_p_bound;
  outcome.measures["total_variation_slack"] = fit.total_variation_slack;
  outcome.spent += g_level;
  if (fit.g_p_bound < g_level) {
    outcome.fail(
        fmt::format("G = {:.1f} over {} cells after {} draws (p at most {:.2e}, level "
                    "{:.1e}); total variation {:.4f}",
                    fit.g, cells, drawn.draws, fit.g_p_bound, g_level, fit.total_variation));
  }
  if (pearson_decides) {
    outcome.spent += chi_squared_level;
    if (fit.chi_squared_p_value < chi_squared_level) {
      outcome.fail(
          fmt::format("chi-squared = {:.1f} with {} degrees of freedom after {} draws (p "
                      "{:.2e}, level {:.1e}); total variation {:.4f}",
                      fit.chi_squared, fit.dof, drawn.draws, fit.chi_squared_p_value,
                      chi_squared_level, fit.total_variation));
    }
  }
  judge_orderings(input, drawn, certain, outcome);
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} draws fit the law: total variation {:.4f} over {} cells",
                                  drawn.draws, fit.total_variation, cells);
  }
  return outcome;
}

namespace {

struct Group {
  std::string name;
  std::vector<std::uint32_t> tokens;
};

// Tokens and groups that sampler bugs are known to hit.
std::vector<Group> named_groups(const CertainLaw& law) {
  std::vector<std::uint32_t> support;
  for (std::uint32_t token = 0; token < law.probability.size(); ++token) {
    if (law.probability[token] > 0) support.push_back(token);
  }
  std::vector<std::uint32_t> by_probability = support;
  std::stable_sort(
      by_probability.begin(), by_probability.end(),
      [&law](std::uint32_t a, std::uint32_t b) { return law.probability[a] > law.probability[b]; });
  std::vector<Group> groups = {{"the most likely token", {by_probability.front()}},
                               {"the first token", {support.front()}},
                               {"the last token", {support.back()}},
                               {"the boundary token", {by_probability.back()}}};
  Group tail{"the tail of mass 1/16", {}};
  double mass = 0;
  for (auto token = by_probability.rbegin(); token != by_probability.rend(); ++token) {
    mass += law.probability[*token];
    if (mass > 1.0 / 16 && !tail.tokens.empty()) break;
    tail.tokens.push_back(*token);
  }
  groups.push_back(std::move(tail));
  for (std::uint32_t lane = 0; lane < 16; ++lane) {
    Group group{fmt::format("lane {} of 16", lane), {}};
    for (const std::uint32_t token : support) {
      if (token % 16 == lane) group.tokens.push_back(token);
    }
    if (!group.tokens.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

CheckOutcome check_binomial(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request request = make_request(input, 0, 1);
  if (const std::string lacks = missing_ability(sampler, request); !lacks.empty()) {
    return skipped(lacks);
  }
  const reference::RealLaw law = law_of(input, request, 0);
  if (!law.defined || law.must_fail) {
    return skipped("semantics " + input.semantics.name + " gives this row no law");
  }
  const CertainLaw certain = certain_law(law);
  if (certain.support < 2 || certain_draws(input.draws, law) == 0)
    return skipped("the support is one token: nothing to count");
  const std::vector<Group> groups = named_groups(certain);
  const double level = input.false_fail_rate / static_cast<double>(groups.size());

  CheckOutcome outcome;
  outcome.rows = 1;
  std::vector<double> probability;
  double min_discrepancy = 0;
  for (const Group& group : groups) {
    double sum = 0;
    for (const std::uint32_t token : group.tokens) sum += certain.probability[token];
    probability.push_back(std::min(sum, 1.0));
    min_discrepancy = std::max(min_discrepancy, statistics::binomial_min_discrepancy(
                                                    certain_draws(input.draws, law),
                                                    probability.back(), level, kFalsePassRate));
  }
  if (min_discrepancy > input.declared_discrepancy) {
    outcome = underpowered(
        fmt::format("{} draws find a difference of {:.5f} in a probability, the case states {:.5f}",
                    input.draws, min_discrepancy, input.declared_discrepancy));
    outcome.min_discrepancy = min_discrepancy;
    return outcome;
  }
  outcome.min_discrepancy = min_discrepancy;
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.measures["groups"] = static_cast<double>(groups.size());
  const Drawn drawn = draw(input, request, law, outcome);
  if (outcome.failed() || drawn.draws == 0) return outcome;

  double smallest = 1;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::uint64_t count = 0;
    for (const std::uint32_t token : groups[i].tokens) count += drawn.of_token[token];
    const double p_value = statistics::binomial_p_value(count, drawn.draws, probability[i]);
    outcome.spent += level;
    smallest = std::min(smallest, p_value);
    if (p_value >= level) continue;
    outcome.fail(fmt::format(
        "{} was drawn {} times in {}, expected {:.1f} (p {:.2e}, level {:.1e})", groups[i].name,
        count, drawn.draws, static_cast<double>(drawn.draws) * probability[i], p_value, level));
  }
  outcome.measures["smallest_p_value"] = smallest;
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} groups of tokens are drawn as often as they must be", groups.size());
  }
  return outcome;
}

}  // namespace fairdraw::harness
