// Judges draws of one row by its distribution, over cells of its tokens and along four orders of
// the tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/certain_distribution.h"
#include "harness/run/checks/statistical/two_stages.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

// The shares of the case's error budget; the orderings divide kDkwmShare equally.
constexpr double kChiSquaredShare = 0.1, kTooGoodShare = 0.1, kGShare = 0.35, kDkwmShare = 0.35,
                 kExactShare = 0.1;
// The minimum expected count and the minimum number of cells for which Pearson's chi-squared
// decides. With smaller expected counts the tail of its null distribution is too light at levels
// near 1e-12: the true rate is 2 times the nominal one for an expected count of 400 and 10 cells,
// and 20000 times for 5. At the square root of such a level, with which each of the two looks is
// compared, the true rate is even closer to the nominal one.
constexpr double kSmallestExpected = 400;
constexpr std::size_t kSmallestCells = 10;
constexpr std::size_t kTooGoodCells = 30;
// More cells detect finer differences, and fewer cells detect smaller ones. With 256 cells, a
// million draws find a total variation distance of 0.01.
constexpr std::uint32_t kLargestCells = 256;
// The number of lanes of the widest common tile; a token's lane is its id modulo this number.
constexpr std::uint32_t kLanes = 1024;

struct Ordering {
  const char* name;
  std::vector<std::uint32_t> tokens;
};

// Returns four orders of the tokens. Each order detects errors that are monotone along it:
// temperature and truncation by probability, a wrong prefix sum by id, a lost lane by lane. The
// order by hash is unrelated to the others, and changes with the case's seed.
std::vector<Ordering> orderings(const CheckInput& input, const CertainDistribution& distribution) {
  std::vector<std::uint32_t> by_id(distribution.probability.size());
  std::iota(by_id.begin(), by_id.end(), 0U);
  const auto by = [&by_id](const auto& key) {
    std::vector<std::uint32_t> order = by_id;
    std::stable_sort(order.begin(), order.end(),
                     [&key](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    return order;
  };
  const std::uint64_t salt = mixed(~input.seed, 0);
  std::vector<Ordering> all = {{"probability", by_falling_probability(distribution.probability)},
                               {"id", by_id},
                               {"hash", by([salt](std::uint32_t id) { return mixed(salt, id); })}};
  if (by_id.size() > kLanes) {
    all.push_back({"lane", by([](std::uint32_t id) { return id % kLanes; })});
  }
  return all;
}

double distance_in_order(const std::vector<std::uint32_t>& order, const CertainCounts& drawn,
                         const CertainDistribution& distribution) {
  std::vector<std::uint64_t> counts;
  std::vector<double> probability;
  for (const std::uint32_t token : order) {
    counts.push_back(drawn.of_token[token]);
    probability.push_back(distribution.probability[token]);
  }
  return statistics::cdf_distance(counts, probability);
}

// The parts of the test that are fixed before a draw is made.
struct Experiment {
  const CheckInput& input;
  Request request;
  reference::RealDistribution distribution = {};
  CertainDistribution certain = {};
  statistics::Pooling pooling = {};
  bool pearson_decides = false;
  std::vector<Ordering> orders = {};

  std::size_t cells() const { return pooling.probability.size(); }
  double level(double share) const { return input.false_fail_rate * share; }
};

double smallest_found(const Experiment& experiment) {
  const std::uint64_t draws = certain_draws(experiment.input.draws, experiment.distribution);
  const auto cells = static_cast<std::uint32_t>(experiment.cells());
  const double found = statistics::g_min_discrepancy(
      draws, cells, TwoStages(experiment.level(kGShare)).each, kFalsePassRateOfALook);
  if (!experiment.pearson_decides) return found;
  return std::min(found, statistics::chi_squared_min_discrepancy(
                             draws, cells - 1.0, TwoStages(experiment.level(kChiSquaredShare)).each,
                             kFalsePassRateOfALook));
}

statistics::GoodnessOfFit fit_cells(const CertainCounts& drawn,
                                    const statistics::Pooling& pooling) {
  return statistics::goodness_of_fit(statistics::pool_counts(pooling, drawn.of_token).counts,
                                     pooling.probability);
}

void describe_fit(const statistics::GoodnessOfFit& fit, const Experiment& experiment,
                  std::uint64_t draws, CheckOutcome& outcome) {
  outcome.statistic = fit.chi_squared;
  outcome.dof = fit.dof;
  outcome.p_value = fit.chi_squared_p_value;
  outcome.measures["g"] = fit.g;
  outcome.measures["total_variation_slack"] = fit.total_variation_slack;
  note_total_variation(fit.total_variation, experiment.cells(), draws, outcome);
  note_effect(outcome);
}

// Adds an exact test: a few separate draws over a few cells, with a list of every outcome.
void add_exact(const Experiment& experiment, std::uint64_t seed, CheckOutcome& outcome,
               std::vector<Finding>& findings) {
  if (experiment.certain.support > statistics::kMaxExactCells) return;
  CheckInput small = experiment.input;
  small.draws = statistics::kMaxExactDraws;
  const CertainCounts drawn =
      draw_row(small, experiment.request, experiment.distribution, seed, outcome);
  if (outcome.failed() || part_of_look(experiment.input)) return;
  std::vector<std::uint64_t> counts;
  std::vector<double> probability;
  for (std::size_t token = 0; token < drawn.of_token.size(); ++token) {
    if (experiment.certain.probability[token] == 0) continue;
    counts.push_back(drawn.of_token[token]);
    probability.push_back(experiment.certain.probability[token]);
  }
  findings.push_back(
      {.name = "exact_multinomial",
       .p_value = statistics::exact_multinomial_p_value(counts, probability),
       .level = experiment.level(kExactShare),
       .what = fmt::format("{} draws of {} tokens are among the least likely outcomes", drawn.draws,
                           counts.size())});
}

// Returns the findings of one look at the draws. Counts that are closer to their expectation than
// chance allows are too good: the draws are cached, stratified or copied. Counts that are too good
// never fail a case without a second look.
std::vector<Finding> look_at(const Experiment& experiment, int look, CheckOutcome& outcome) {
  const std::uint64_t seed = look == 0 ? experiment.input.seed : mixed(experiment.input.seed, 1);
  const CertainCounts drawn =
      draw_row(experiment.input, experiment.request, experiment.distribution, seed, outcome);
  std::vector<Finding> findings;
  if (part_of_look(experiment.input)) {
    add_exact(experiment, mixed(seed, 2), outcome, findings);
    return {};
  }
  if (outcome.failed()) return findings;
  const statistics::GoodnessOfFit fit = fit_cells(drawn, experiment.pooling);
  if (look == 0) {
    describe_fit(fit, experiment, drawn.draws, outcome);
    outcome.evidence.profiles = profiles_of(experiment.certain, drawn);
    note_cells(experiment.input, experiment.certain, drawn, outcome);
  }
  findings.push_back(
      {.name = "g",
       .p_value = fit.g_p_bound,
       .level = experiment.level(kGShare),
       .what = fmt::format("G = {:.1f} over {} cells after {} draws; total "
                           "variation {:.4f}",
                           fit.g, experiment.cells(), drawn.draws, fit.total_variation)});
  const std::string pearson =
      fmt::format("chi-squared = {:.1f} with {} degrees of freedom after {} draws", fit.chi_squared,
                  fit.dof, drawn.draws);
  if (experiment.pearson_decides) {
    findings.push_back(
        {.name = "chi_squared",
         .p_value = fit.chi_squared_p_value,
         .level = experiment.level(kChiSquaredShare),
         .what = fmt::format("{}; total variation {:.4f}", pearson, fit.total_variation)});
  }
  if (experiment.pearson_decides && experiment.cells() >= kTooGoodCells) {
    findings.push_back({.name = "too_good",
                        .p_value = fit.chi_squared_too_good,
                        .level = experiment.level(kTooGoodShare),
                        .what = pearson + " is too good for independent draws",
                        .never_at_once = true});
  }
  for (const Ordering& order : experiment.orders) {
    const double distance = distance_in_order(order.tokens, drawn, experiment.certain);
    if (look == 0) outcome.measures[fmt::format("dkwm_{}_distance", order.name)] = distance;
    findings.push_back(
        {.name = fmt::format("dkwm_{}", order.name),
         .p_value = statistics::dkwm_p_value(distance, drawn.draws),
         .level = experiment.level(kDkwmShare) / static_cast<double>(experiment.orders.size()),
         .what = fmt::format("the distribution function over tokens by {} is off by {:.4g} after "
                             "{} draws",
                             order.name, distance, drawn.draws)});
  }
  add_exact(experiment, mixed(seed, 2), outcome, findings);
  if (look == 0) note_p_values(findings, outcome);
  return findings;
}

}  // namespace

CheckOutcome check_chi_squared(const CheckInput& input) {
  Experiment experiment{.input = input, .request = make_request(input, 0, 1)};
  const Lack why = find_distribution(input, experiment.request, experiment.distribution);
  if (!why.empty()) return skipped(why);
  experiment.certain = certain_distribution(experiment.distribution);
  if (experiment.certain.support == 0) return skipped("every token of the support is ambiguous");
  experiment.pooling = statistics::pool_by_probability(
      experiment.certain.probability, certain_draws(input.draws, experiment.distribution),
      kSmallestExpected, kLargestCells);
  if (experiment.cells() < 2) {
    return underpowered(fmt::format("{} draws leave one cell of expected count {}", input.draws,
                                    kSmallestExpected));
  }
  experiment.pearson_decides = experiment.cells() >= kSmallestCells &&
                               experiment.pooling.smallest_expected >= kSmallestExpected;
  experiment.orders = orderings(input, experiment.certain);

  CheckOutcome outcome;
  outcome.min_discrepancy = smallest_found(experiment);
  if (*outcome.min_discrepancy > input.declared_discrepancy) {
    CheckOutcome weak = underpowered(
        fmt::format("{} draws find a total variation of {:.4f}, the case states {:.4f}",
                    input.draws, *outcome.min_discrepancy, input.declared_discrepancy));
    weak.min_discrepancy = outcome.min_discrepancy;
    return weak;
  }
  outcome.rows = 1;
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.measures["cells"] = static_cast<double>(experiment.cells());
  outcome.measures["support"] = static_cast<double>(experiment.certain.support);
  outcome.measures["ambiguous_mass"] = experiment.certain.ambiguous_mass;
  outcome.measures["smallest_expected"] = experiment.pooling.smallest_expected;
  outcome.evidence.power =
      power_of("g", experiment.cells(), experiment.level(kGShare), kFalsePassRate,
               input.declared_discrepancy, certain_draws(input.draws, experiment.distribution),
               [&experiment](std::uint64_t draws) {
                 return statistics::g_min_discrepancy(
                     draws, static_cast<std::uint32_t>(experiment.cells()),
                     TwoStages(experiment.level(kGShare)).each, kFalsePassRateOfALook);
               });
  judge_in_two_stages(
      [&](int look) { return look_at(experiment, part_of_look(input).value_or(look), outcome); },
      outcome);
  if (part_of_look(input)) return outcome;
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} draws fit the distribution: total variation {:.4f} over {} cells",
                    outcome.draws, outcome.total_variation.value_or(0), experiment.cells());
  }
  return outcome;
}

}  // namespace fairdraw::harness
