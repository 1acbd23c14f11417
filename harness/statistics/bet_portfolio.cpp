#include "harness/statistics/bet_portfolio.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/compensated_sum.h"
#include "harness/statistics/pooling.h"

namespace fairdraw::statistics {
namespace {

// Values of kappa p. Each value of kappa p bets on a relative deviation of about 1 / sqrt(kappa p).
// With factors of 8 between the values, the best value is off by at most a factor sqrt(8).
constexpr std::array<double, 8> kMasses = {0.125, 1, 8, 64, 512, 4096, 32768, 262144};
constexpr double kSmallestComplement = 1e-12;
constexpr std::uint32_t kMaxGroups = 1U << 20;

std::vector<CompensatedSum> sum_by_group(const TokenSets& sets, std::span<const double> values) {
  std::vector<CompensatedSum> sums;
  for (std::size_t token = 0; token < values.size(); ++token) {
    const std::uint32_t group = sets.group_of[token];
    if (group == kNoCell || values[token] == 0) continue;
    if (group >= kMaxGroups) {
      throw std::invalid_argument(fmt::format("group_of[{}] of '{}' is {}; it must be in [0, {})",
                                              token, sets.name, group, kMaxGroups));
    }
    if (group >= sums.size()) sums.resize(group + 1);
    sums[group].add(values[token]);
  }
  return sums;
}

double total_of(std::span<const double> values) {
  CompensatedSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

}  // namespace

BetPortfolio::BetPortfolio(std::span<const double> probability, std::vector<TokenSets> sets)
    : probability_(probability.begin(), probability.end()), sets_(std::move(sets)) {
  require_distribution("probability", probability);
  const double total = total_of(probability);
  for (std::uint32_t family = 0; family < sets_.size(); ++family) {
    const TokenSets& one = sets_[family];
    require_same_size("group_of", one.group_of.size(), "probability", probability.size());
    require_statistic("weight", one.weight);
    const std::vector<CompensatedSum> masses = sum_by_group(one, probability);
    counts_.emplace_back(masses.size(), 0);
    const std::size_t first = bets_.size();
    for (std::uint32_t group = 0; group < masses.size(); ++group) {
      Bet bet{.family = family, .group = group};
      bet.probability = masses[group].value() / total;
      bet.complement = (total - masses[group].value()) / total;
      if (bet.probability <= 0 || bet.complement < kSmallestComplement) continue;
      bet.log_probability = std::log(bet.probability);
      bet.log_complement =
          bet.probability < 0.5 ? std::log1p(-bet.probability) : std::log(bet.complement);
      bets_.push_back(bet);
    }
    const double share = one.weight / static_cast<double>(bets_.size() - first);
    for (std::size_t i = first; i < bets_.size(); ++i) bets_[i].log_weight = share;
  }
  CompensatedSum weights;
  for (const Bet& bet : bets_) weights.add(bet.log_weight);
  for (Bet& bet : bets_) bet.log_weight = std::log(bet.log_weight / weights.value());
}

void BetPortfolio::allow_distribution_error(std::span<const double> relative_error,
                                            std::uint64_t draws, double rate) {
  require_same_size("relative_error", relative_error.size(), "probability", probability_.size());
  require_error_rate("rate", rate);
  std::vector<double> error(probability_.size());
  for (std::size_t token = 0; token < error.size(); ++token) {
    require_statistic("relative_error", relative_error[token]);
    error[token] = probability_[token] * relative_error[token];
  }
  const double all = total_of(error);
  std::vector<std::vector<CompensatedSum>> by_group;
  for (const TokenSets& sets : sets_) by_group.push_back(sum_by_group(sets, error));
  for (Bet& bet : bets_) {
    const auto& sums = by_group[bet.family];
    const double inside = bet.group < sums.size() ? sums[bet.group].value() : 0;
    // Each weight is off by a factor 1 +- e_x and the sum of weights by 1 +- all, so the mass of a
    // set is off by 1 +- (e + all) / (1 - all), where e is the mean of e_x over the set. The bound
    // is computed for the set or for its complement, whichever has less mass.
    const double smaller = std::min(bet.probability, bet.complement);
    const double own =
        (bet.probability <= bet.complement ? inside : std::max(0.0, all - inside)) / smaller;
    const double relative = all < 1 ? (own + all) / (1 - all) : 1.0;
    const double chi_squared =
        relative * relative * smaller / std::max(bet.probability, bet.complement);
    bet.payment = distribution_error_payment(relative, chi_squared, draws,
                                             rate / static_cast<double>(bets_.size()));
  }
}

double BetPortfolio::log_e_of(const Bet& bet, double inside, double outside) const {
  std::array<double, kMasses.size()> parts{}, weights{};
  weights.fill(1.0 / static_cast<double>(weights.size()));
  const double known = inside * bet.log_probability + outside * bet.log_complement;
  const double smaller = std::min(bet.probability, bet.complement);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double kappa = kMasses[i] / smaller;
    parts[i] = log_rising_factorial(kappa * bet.probability, inside) +
               log_rising_factorial(kappa * bet.complement, outside) -
               log_rising_factorial(kappa, inside + outside) - known;
  }
  return mean_log_e(parts, weights) - bet.payment;
}

void BetPortfolio::add(std::span<const std::uint64_t> counts) {
  require_same_size("counts", counts.size(), "probability", probability_.size());
  std::uint64_t more = 0;
  for (std::size_t token = 0; token < counts.size(); ++token) {
    if (counts[token] == 0) continue;
    if (probability_[token] == 0) {
      throw std::invalid_argument(fmt::format(
          "counts[{}] is {}; it must be 0, as its probability is", token, counts[token]));
    }
    // The sum of 2^20 such counts does not overflow.
    more += std::min(counts[token], kMaxBetDraws + 1);
  }
  if (more > kMaxBetDraws - draws_) {
    throw std::invalid_argument(
        fmt::format("{} draws after {}; together it must be at most 2^36", more, draws_));
  }
  draws_ += more;
  for (std::size_t family = 0; family < sets_.size(); ++family) {
    const std::vector<std::uint32_t>& group_of = sets_[family].group_of;
    for (std::size_t token = 0; token < counts.size(); ++token) {
      if (counts[token] > 0 && group_of[token] != kNoCell) {
        counts_[family][group_of[token]] += counts[token];
      }
    }
  }
  if (bets_.empty()) return;  // E stays 1
  std::vector<double> parts, weights;
  for (const Bet& bet : bets_) {
    const std::uint64_t count = counts_[bet.family][bet.group];
    parts.push_back(log_e_of(bet, static_cast<double>(count), static_cast<double>(draws_ - count)));
    weights.push_back(std::exp(bet.log_weight));
  }
  log_e_ = mean_log_e(parts, weights);
  max_log_e_ = std::max(max_log_e_, log_e_);
}

BetPortfolio::Strongest BetPortfolio::strongest() const {
  Strongest best;
  bool found = false;
  for (const Bet& bet : bets_) {
    const std::uint64_t count = counts_[bet.family][bet.group];
    const double log_e = bet.log_weight + log_e_of(bet, static_cast<double>(count),
                                                   static_cast<double>(draws_ - count));
    if (found && log_e <= best.log_e) continue;
    const std::string& name = sets_[bet.family].name;
    const bool is_alone = counts_[bet.family].size() == 1;
    best = {is_alone ? name : fmt::format("{}, number {}", name, bet.group), count,
            static_cast<double>(draws_) * bet.probability, log_e};
    found = true;
  }
  return best;
}

std::size_t BetPortfolio::losses_found(std::uint64_t draws, double needed) const {
  return static_cast<std::size_t>(std::count_if(bets_.begin(), bets_.end(), [&](const Bet& bet) {
    return bet.log_weight + log_e_of(bet, 0, static_cast<double>(draws)) >= needed;
  }));
}

}  // namespace fairdraw::statistics
