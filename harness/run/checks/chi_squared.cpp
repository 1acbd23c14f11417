// Draws of one row against its law, over cells of its tokens and along two orders of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/run/checks.h"
#include "harness/run/checks/certain_law.h"
#include "harness/run/random_words.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

// Shares of the case's budget.
constexpr double kChiSquaredShare = 0.1, kTooGoodShare = 0.1, kGShare = 0.4, kDkwmShare = 0.4;
constexpr std::size_t kOrderings = 2;
// Where Pearson's chi-squared may decide: with fewer expected its tail is too light at levels near
// 1e-12 (true rate 2 times the nominal one at 400 and 10 cells, 20000 times at 5).
constexpr double kSmallestExpected = 400;
constexpr std::size_t kSmallestCells = 10;
constexpr std::size_t kTooGoodCells = 30;
// More cells see finer differences, fewer see smaller ones. 256 finds a total variation of 0.01
// with a million draws.
constexpr std::uint32_t kLargestCells = 256;

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
  const std::vector<std::uint32_t> by_probability = by_falling_probability(law.probability);
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

statistics::GoodnessOfFit fit_cells(const Drawn& drawn, const statistics::Pooling& pooling) {
  std::vector<std::uint64_t> cell_counts(pooling.probability.size());
  for (std::size_t token = 0; token < drawn.of_token.size(); ++token) {
    if (drawn.of_token[token] > 0) cell_counts[pooling.cell_of[token]] += drawn.of_token[token];
  }
  return statistics::goodness_of_fit(cell_counts, pooling.probability);
}

// Counts that are nearer to their expectation than chance leaves them: cached, stratified or
// copied draws. Alarm and confirmation on fresh draws each have the root of the level.
void judge_too_good(const CheckInput& input, const Request& request, const reference::RealLaw& law,
                    const statistics::Pooling& pooling, const statistics::GoodnessOfFit& fit,
                    CheckOutcome& outcome) {
  const double level = input.false_fail_rate * kTooGoodShare;
  outcome.spent += level;
  outcome.measures["too_good_p_value"] = fit.chi_squared_too_good;
  if (fit.chi_squared_too_good >= std::sqrt(level)) return;
  const Drawn again = draw_row(input, request, law, mixed(input.seed, 1), outcome);
  if (outcome.failed()) return;
  const statistics::GoodnessOfFit confirmed = fit_cells(again, pooling);
  if (confirmed.chi_squared_too_good >= std::sqrt(level)) return;
  outcome.fail(
      fmt::format("chi-squared = {:.1f}, and {:.1f} on fresh draws, with {} degrees of "
                  "freedom: too good for independent draws (p {:.1e} and {:.1e})",
                  fit.chi_squared, confirmed.chi_squared, fit.dof, fit.chi_squared_too_good,
                  confirmed.chi_squared_too_good));
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
  const Drawn drawn = draw_row(input, request, law, input.seed, outcome);
  if (outcome.failed()) return outcome;

  const statistics::GoodnessOfFit fit = fit_cells(drawn, pooling);
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
  if (pearson_decides && cells >= kTooGoodCells) {
    judge_too_good(input, request, law, pooling, fit, outcome);
  }
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} draws fit the law: total variation {:.4f} over {} cells",
                                  drawn.draws, fit.total_variation, cells);
  }
  return outcome;
}

}  // namespace fairdraw::harness
