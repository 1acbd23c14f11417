#include "harness/run/checks/exact/certain_distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/sort/pdqsort/pdqsort.hpp>
#include <cmath>

#include "harness/run/calls/draws.h"
#include "harness/run/evidence/pictures.h"
#include "harness/run/evidence/token_suspects.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {

using reference::Membership;

Lack find_distribution(const CheckInput& input, const Request& request,
                       reference::RealDistribution& distribution) {
  if (Lack lack = lack_for(input.sampler->description(), request); !lack.empty()) {
    return lack;
  }
  distribution = distribution_of(input, request, 0);
  if (distribution.defined && !distribution.must_fail) return {};
  return {"semantics " + input.semantics.name + " gives this row no distribution", ""};
}

CertainDistribution certain_distribution(const reference::RealDistribution& distribution) {
  CertainDistribution certain;
  certain.ambiguous_mass = distribution.ambiguous_mass;
  certain.probability.assign(distribution.probability.size(), 0);
  double sum = 0;
  for (std::size_t token = 0; token < distribution.probability.size(); ++token) {
    if (!distribution.has_frequency(token) || distribution.probability[token] <= 0) continue;
    certain.probability[token] = distribution.probability[token];
    sum += distribution.probability[token];
    ++certain.support;
  }
  for (double& probability : certain.probability) probability /= sum;
  return certain;
}

std::vector<std::uint32_t> by_falling_probability(std::span<const double> probability) {
  // The bits of probabilities, read as integers, have the order of their values, and integers sort
  // faster. Most tokens of a filtered row have probability 0, and are already in order.
  struct Ranked {
    std::uint64_t bits;
    std::uint32_t token;
    bool operator<(const Ranked& other) const {
      return bits != other.bits ? bits > other.bits : token < other.token;
    }
  };
  std::vector<Ranked> ranked;
  std::vector<std::uint32_t> impossible;
  for (std::uint32_t token = 0; token < probability.size(); ++token) {
    if (probability[token] > 0) {
      ranked.push_back({std::bit_cast<std::uint64_t>(probability[token]), token});
    } else {
      impossible.push_back(token);
    }
  }
  boost::sort::pdqsort_branchless(ranked.begin(), ranked.end());
  std::vector<std::uint32_t> order;
  order.reserve(probability.size());
  for (const Ranked& one : ranked) order.push_back(one.token);
  order.insert(order.end(), impossible.begin(), impossible.end());
  return order;
}

std::uint64_t certain_draws(std::uint64_t draws, const reference::RealDistribution& distribution) {
  const double partly =
      distribution.partly_drawn < 0
          ? 0
          : distribution.probability[static_cast<std::size_t>(distribution.partly_drawn)];
  return static_cast<std::uint64_t>(static_cast<double>(draws) *
                                    std::max(0.0, 1 - distribution.ambiguous_mass - partly));
}

std::optional<int> part_of_look(const CheckInput& input) {
  return input.counts != nullptr ? input.counts->part_of_look() : std::nullopt;
}

namespace {

// Records the first drawn token outside of the support, and the tokens around it.
void note_outside(const CheckInput& input, const Request& request,
                  const reference::RealDistribution& distribution, std::size_t token,
                  const Counts& counts, CheckOutcome& outcome) {
  if (outcome.evidence.boundary) return;
  outcome.evidence.observed =
      fmt::format("token {}, {} times in {} draws", token, counts.of_token[token], counts.draws);
  outcome.evidence.expected = "never: it is outside of the support";
  outcome.evidence.boundary =
      boundary_around(request, distribution, 0, 0, static_cast<std::int64_t>(token), {});
  for (BoundaryToken& entry : outcome.evidence.boundary->tokens) {
    entry.drawn = counts.of_token[entry.token];
  }
  note_own_mask(input, request, 0, *outcome.evidence.boundary);
}

}  // namespace

CertainCounts draw_row(const CheckInput& input, const Request& request,
                       const reference::RealDistribution& distribution, std::uint64_t seed,
                       CheckOutcome& outcome) {
  Counts counts =
      input.counts != nullptr
          ? input.counts->count(*input.sampler, request, input.draws, seed)
          : count_draws(*input.sampler, request, input.draws, seed, input.requests_of_call);
  outcome.draws += counts.draws;
  if (part_of_look(input)) return {};
  if (!counts.trouble.empty()) outcome.fail(counts.trouble);
  if (counts.no_token > 0) {
    outcome.fail(fmt::format("{} of {} draws gave no token of the vocabulary", counts.no_token,
                             counts.draws));
    outcome.evidence.suspects.push_back(
        {"out of support: no token of the vocabulary", "a draw ends behind all prefix sums"});
  }
  CertainCounts drawn;
  for (std::size_t token = 0; token < counts.of_token.size(); ++token) {
    if (distribution.membership[token] == Membership::out && counts.of_token[token] > 0) {
      outcome.fail(
          fmt::format("token {} (logit {}) was drawn {} times and is outside of the "
                      "support ({})",
                      token, request.row(0)[token], counts.of_token[token],
                      describe(request.parameters.front())));
      note_outside(input, request, distribution, token, counts, outcome);
    }
    if (!distribution.has_frequency(token)) counts.of_token[token] = 0;
    drawn.draws += counts.of_token[token];
  }
  drawn.of_token = std::move(counts.of_token);
  if (drawn.draws == 0) outcome.fail("no draw gave a token that certainly belongs to the support");
  return drawn;
}

ErrorOfCells error_of_cells(const statistics::Pooling& pooling,
                            const CertainDistribution& distribution,
                            const std::vector<double>& errors) {
  std::vector<double> by_cell(pooling.probability.size(), 0);
  double all = 0;
  for (std::size_t token = 0; token < errors.size(); ++token) {
    if (distribution.probability[token] == 0) continue;
    const double error = distribution.probability[token] * errors[token];
    by_cell[pooling.cell_of[token]] += error;
    all += error;
  }
  ErrorOfCells of_cells;
  for (std::size_t cell = 0; cell < by_cell.size(); ++cell) {
    const double p = pooling.probability[cell];
    const double relative = all < 1 ? (by_cell[cell] / p + all) / (1 - all) : 1;
    of_cells.largest = std::max(of_cells.largest, relative);
    of_cells.chi_squared += p * relative * relative;
  }
  return of_cells;
}

void note_cells(const CheckInput& input, const CertainDistribution& distribution,
                const CertainCounts& drawn, CheckOutcome& outcome) {
  constexpr std::uint32_t kCells = 32;
  std::vector<std::uint32_t> lane(distribution.probability.size());
  for (std::uint32_t token = 0; token < lane.size(); ++token) lane[token] = token % kCells;
  const std::vector<double> errors = weight_errors(input, distribution);
  const auto add = [&](const char* axis, const statistics::Pooling& pooling) {
    if (pooling.probability.size() < 2) return;
    const ErrorOfCells error = error_of_cells(pooling, distribution, errors);
    outcome.cells.push_back({axis, pooling.probability,
                             statistics::pool_counts(pooling, drawn.of_token).counts, error.largest,
                             error.chi_squared});
  };
  // The cells must not depend on the number of draws, so the pooling gets no expected count.
  add("rank", statistics::pool_by_probability(distribution.probability, 1, 0, kCells));
  add("lane", statistics::pool_by_group(distribution.probability, lane, 1, 0, kCells));
}

std::vector<double> weight_errors(const CheckInput& input,
                                  const CertainDistribution& distribution) {
  const reference::WeightBound bound = weight_bound(input);
  const double largest =
      *std::max_element(distribution.probability.begin(), distribution.probability.end());
  std::vector<double> errors(distribution.probability.size(), 0);
  for (std::size_t token = 0; token < errors.size(); ++token) {
    if (distribution.probability[token] == 0) continue;
    errors[token] = std::min(1.0, bound.at(std::log2(largest / distribution.probability[token])));
  }
  return errors;
}

void note_total_variation(double observed, std::size_t cells, std::uint64_t draws,
                          CheckOutcome& outcome) {
  constexpr double kMissRate = 0.01;
  const statistics::Interval interval = statistics::total_variation_interval(
      observed, static_cast<std::uint32_t>(cells), draws, kMissRate);
  outcome.total_variation = observed;
  outcome.measures["total_variation_lower"] = interval.lower;
  outcome.measures["total_variation_upper"] = interval.upper;
}

}  // namespace fairdraw::harness
