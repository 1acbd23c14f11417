// Bets against the distribution of one row, with draws in growing batches; the case fails as soon
// as the evidence reaches its bound.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/certain_distribution.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

// Half of the level is for Ville's bound, and half is for gains from the sampler's own rounding.
constexpr double kBetShare = 0.5, kDistributionErrorShare = 0.5;
// With 64 cells, a million draws find a total variation distance of 0.01. The expected count of
// each cell is at least 100, because the design pays for cells with smaller ones.
constexpr std::uint32_t kCellsOfBets = 64;
constexpr double kExpectedOfBet = 100;
// Each batch is half as large as all draws before it, so that a fault that n draws find ends the
// case after at most 1.5 n draws.
constexpr std::uint64_t kFirstBatch = 4096;
constexpr double kGrowth = 0.5;
// The evidence from which on the case makes more draws. A right sampler reaches this evidence with
// probability at most 0.01.
const double kSuspicious = std::log(100.0);
constexpr std::uint64_t kLongest = 4;  // at most 4 times the draws of the case are made

// Bets with half of the stake on the whole distribution over cells, and with half on sets of
// tokens.
class Bets {
 public:
  Bets(const CheckInput& input, const CertainDistribution& distribution, std::uint64_t draws)
      : pooling_(statistics::pool_by_probability(distribution.probability, draws, kExpectedOfBet,
                                                 kCellsOfBets)),
        cells_(pooling_.probability),
        cell_counts_(pooling_.probability.size(), 0),
        portfolio_(distribution.probability, statistics::directed_sets(distribution.probability)) {
    const double rate = input.false_fail_rate * kDistributionErrorShare / 2;
    const std::vector<double> errors = weight_errors(input, distribution);
    portfolio_.allow_distribution_error(errors, draws * kLongest, rate);
    const ErrorOfCells of_cells = error_of_cells(pooling_, distribution, errors);
    cells_payment_ = statistics::distribution_error_payment(of_cells.largest, of_cells.chi_squared,
                                                            draws * kLongest, rate);
  }

  void add(const CertainCounts& drawn) {
    const statistics::PooledCounts pooled = statistics::pool_counts(pooling_, drawn.of_token);
    cells_.add(pooled.counts);
    portfolio_.add(drawn.of_token);
    for (std::size_t cell = 0; cell < cell_counts_.size(); ++cell) {
      cell_counts_[cell] += pooled.counts[cell];
    }
    const std::array<double, 2> parts = {cells_.log_e() - cells_payment_, portfolio_.log_e()};
    const std::array<double, 2> weights = {0.5, 0.5};
    log_e_ = statistics::mean_log_e(parts, weights);
    max_log_e_ = std::max(max_log_e_, log_e_);
  }

  double log_e() const { return log_e_; }
  double max_log_e() const { return max_log_e_; }

  /// Returns the bet with the largest gain.
  std::string culprit() const {
    const statistics::GoodnessOfFit fit =
        statistics::goodness_of_fit(cell_counts_, pooling_.probability);
    if (cells_.log_e() - cells_payment_ > portfolio_.log_e()) {
      return fmt::format("the distribution over {} cells is off by a total variation of {:.4f}",
                         cell_counts_.size(), fit.total_variation);
    }
    const auto set = portfolio_.strongest();
    return fmt::format("{} was drawn {} times in {}, expected {:.1f}", set.name, set.count,
                       portfolio_.draws(), set.expected);
  }

  const std::vector<std::uint64_t>& cell_counts() const { return cell_counts_; }
  const std::vector<double>& cell_distribution() const { return pooling_.probability; }
  const statistics::BetPortfolio& portfolio() const { return portfolio_; }
  double cells_payment() const { return cells_payment_; }

 private:
  statistics::Pooling pooling_;
  statistics::DirichletMixture cells_;
  std::vector<std::uint64_t> cell_counts_;
  statistics::BetPortfolio portfolio_;
  double cells_payment_ = 0;
  double log_e_ = 0, max_log_e_ = 0;
};

void describe_evidence(const Bets& evidence, CheckOutcome& outcome) {
  constexpr double kLn10 = 2.302585092994046;  // ln 10
  outcome.statistic = evidence.max_log_e() / kLn10;
  outcome.p_value = statistics::e_to_p_value(evidence.max_log_e());
  outcome.measures["log10_e"] = evidence.log_e() / kLn10;
  outcome.measures["max_log10_e"] = evidence.max_log_e() / kLn10;
  const auto fit =
      statistics::goodness_of_fit(evidence.cell_counts(), evidence.cell_distribution());
  const auto draws = evidence.portfolio().draws();
  note_total_variation(fit.total_variation, evidence.cell_distribution().size(), draws, outcome);
  note_effect(outcome);
  if (evidence.max_log_e() >= kSuspicious) outcome.evidence.observed = evidence.culprit();
}

// Draws until the evidence suffices, or until the case's draws are made and nothing is suspicious,
// or until four times as many draws are made. A part of the case makes the draws that are always
// needed (look 0), or those that may follow (look 1).
void draw_and_bet(const CheckInput& input, const Request& request,
                  const reference::RealDistribution& distribution, double needed, Bets& evidence,
                  CertainCounts& all, CheckOutcome& outcome) {
  std::uint64_t drawn = 0;
  outcome.evidence.growth.push_back({"the distribution over cells, and sets of tokens",
                                     for_picture(needed / std::log(10.0)),
                                     {}});
  Growth& growth = outcome.evidence.growth.back();
  for (std::uint64_t batch = 0;; ++batch) {
    const std::optional<int> part_look = part_of_look(input);
    const bool goes_on_suspiciously = part_look ? *part_look == 1 : evidence.log_e() >= kSuspicious;
    const bool goes_on =
        drawn < input.draws || (drawn < kLongest * input.draws && goes_on_suspiciously);
    if (!goes_on) break;
    const std::uint64_t end = drawn < input.draws ? input.draws : kLongest * input.draws;
    const auto grown = static_cast<std::uint64_t>(kGrowth * static_cast<double>(drawn));
    CheckInput part = input;
    part.draws = std::min(std::max(kFirstBatch, grown), end - drawn);
    if (part_look == 1 && drawn < input.draws) {
      drawn += part.draws;
      continue;
    }
    const CertainCounts more =
        draw_row(part, request, distribution, mixed(input.seed, batch), outcome);
    if (part_look) {
      drawn += part.draws;
      continue;
    }
    for (std::size_t token = 0; token < more.of_token.size(); ++token) {
      all.of_token[token] += more.of_token[token];
    }
    all.draws += more.draws;
    evidence.add(more);
    if (outcome.failed()) return;
    drawn += part.draws;
    growth.points.push_back({drawn, for_picture(evidence.log_e() / std::log(10.0))});
    if (evidence.log_e() < needed) continue;
    outcome.fail(fmt::format("{}: evidence 10^{:.1f} to 1 after {} draws, 10^{:.1f} is enough",
                             evidence.culprit(), evidence.log_e() / std::log(10.0), drawn,
                             needed / std::log(10.0)));
    return;
  }
  if (evidence.max_log_e() < kSuspicious) return;
  outcome.watch_out(fmt::format("{}: evidence was {:.0f} to 1, and is {:.2g} after {} draws",
                                evidence.culprit(), std::exp(evidence.max_log_e()),
                                std::exp(evidence.log_e()), drawn));
}

}  // namespace

CheckOutcome check_bets(const CheckInput& input) {
  const Request request = make_request(input, 0, 1);
  reference::RealDistribution distribution;
  if (const Lack why = find_distribution(input, request, distribution); !why.empty())
    return skipped(why);
  const CertainDistribution certain = certain_distribution(distribution);
  const std::uint64_t design_draws = certain_draws(input.draws, distribution);
  if (certain.support < 2 || design_draws == 0) {
    return skipped("the support is one token: nothing to bet on");
  }
  Bets evidence(input, certain, design_draws);
  if (evidence.cell_distribution().size() < 2) {
    return underpowered(
        fmt::format("{} draws leave one cell of expected count {}", input.draws, kExpectedOfBet));
  }
  const double needed = -std::log(input.false_fail_rate * kBetShare);
  const double needed_by_half = needed + std::log(2.0);

  CheckOutcome outcome;
  outcome.min_discrepancy = statistics::dirichlet_min_discrepancy(
      design_draws, evidence.cell_distribution(), needed_by_half + evidence.cells_payment(),
      kFalsePassRate);
  if (*outcome.min_discrepancy > input.declared_discrepancy) {
    CheckOutcome weak = underpowered(
        fmt::format("{} draws find a total variation of {:.4f}, the case states {:.4f}",
                    input.draws, *outcome.min_discrepancy, input.declared_discrepancy));
    weak.min_discrepancy = outcome.min_discrepancy;
    return weak;
  }
  outcome.rows = 1;
  outcome.spend(input.false_fail_rate);
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.measures["cells"] = static_cast<double>(evidence.cell_distribution().size());
  outcome.measures["support"] = static_cast<double>(certain.support);
  outcome.measures["ambiguous_mass"] = certain.ambiguous_mass;
  outcome.measures["sets"] = static_cast<double>(evidence.portfolio().bets());
  outcome.measures["sets_whose_loss_is_found"] =
      static_cast<double>(evidence.portfolio().losses_found(design_draws, needed_by_half));
  outcome.evidence.power =
      power_of("dirichlet", evidence.cell_distribution().size(), input.false_fail_rate * kBetShare,
               kFalsePassRate, input.declared_discrepancy, design_draws, [&](std::uint64_t draws) {
                 return statistics::dirichlet_min_discrepancy(
                     draws, evidence.cell_distribution(), needed_by_half + evidence.cells_payment(),
                     kFalsePassRate);
               });
  CertainCounts all{.of_token = std::vector<std::uint64_t>(certain.probability.size(), 0)};
  draw_and_bet(input, request, distribution, needed, evidence, all, outcome);
  if (part_of_look(input)) return outcome;
  outcome.evidence.profiles = profiles_of(certain, all);
  if (all.draws > 0) note_cells(input, certain, all, outcome);
  if (evidence.portfolio().draws() > 0) describe_evidence(evidence, outcome);
  outcome.evidence.decisive = {"bets", std::nullopt,
                               for_picture(evidence.max_log_e() / std::log(10.0)),
                               input.false_fail_rate * kBetShare};
  if (!outcome.failed()) {
    outcome.message = fmt::format(
        "no bet against the distribution wins: total variation {:.4f} over {} "
        "cells, {} sets of tokens",
        *outcome.total_variation, evidence.cell_distribution().size(), evidence.portfolio().bets());
  }
  return outcome;
}

}  // namespace fairdraw::harness
