// Draws from many different rows: each is put through the law of its own row, and what comes out
// must be uniform and independent.
#include "harness/statistics/pit.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/run/checks.h"
#include "harness/run/checks/certain_law.h"
#include "harness/run/random_words.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// Rows are rotations of base rows: row i holds base[(i + shift) mod vocab]. A sampler sees a
// different row each time, at other ids and other vector lanes, and the law costs one oracle for
// all of them: in the order of ids, rotation shifts the transform by a constant, modulo 1.
constexpr std::int64_t kRotations = 64;
constexpr std::int64_t kRowsPerCall = 32;
constexpr double kStatistics = 4;  // two orderings, two lags

struct BaseLaw {
  std::vector<Membership> membership;
  std::vector<double> prefix_by_id;
  std::vector<double> prefix_by_rank;
  std::vector<std::uint32_t> rank_of;
};

BaseLaw base_law(const CheckInput& input, const Request& base) {
  reference::RealLaw law = law_of(input, base, 0);
  BaseLaw result;
  std::vector<double>& probability = law.probability;
  for (std::size_t token = 0; token < probability.size(); ++token) {
    if (law.membership[token] != Membership::in) probability[token] = 0;
  }
  const std::vector<std::uint32_t> order = by_falling_probability(probability);
  result.rank_of.resize(order.size());
  std::vector<double> ranked(order.size());
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
    result.rank_of[order[rank]] = rank;
    ranked[rank] = probability[order[rank]];
  }
  result.prefix_by_id = statistics::prefix_sums(probability);
  result.prefix_by_rank = statistics::prefix_sums(ranked);
  result.membership = std::move(law.membership);
  return result;
}

struct Streams {
  std::vector<double> by_id, by_rank;
};

// One call: `count` rotations of the base row, whose shifts are given.
Request rotations(const Request& base, const std::vector<std::int64_t>& shifts, std::uint64_t seed,
                  std::int32_t num_samples) {
  Request request = base;
  request.rows = static_cast<std::int64_t>(shifts.size());
  request.num_samples = num_samples;
  request.logits.resize(shifts.size() * static_cast<std::size_t>(base.vocab));
  request.seed.clear();
  auto target = request.logits.begin();
  for (std::size_t i = 0; i < shifts.size(); ++i) {
    target = std::rotate_copy(base.logits.begin(), base.logits.begin() + shifts[i],
                              base.logits.end(), target);
    request.seed.push_back(mixed(seed, i));
  }
  request.offset.assign(shifts.size(), 0);
  request.parameters.assign(shifts.size(), base.parameters.front());
  return request;
}

void transform(const BaseLaw& law, const Request& request, const Response& response,
               const std::vector<std::int64_t>& shifts, std::uint64_t seed, Streams& streams,
               CheckOutcome& outcome) {
  const double total = law.prefix_by_id.back();
  for (std::size_t i = 0; i < response.tokens.size(); ++i) {
    ++outcome.draws;
    const std::size_t output = i / static_cast<std::size_t>(request.num_samples);
    const std::int64_t token = response.tokens[i];
    if (token < 0 || token >= request.vocab) {
      outcome.fail(fmt::format("token {} is outside of the vocabulary", token));
      return;
    }
    const std::int64_t base_token = (token + shifts[output]) % request.vocab;
    const auto at = static_cast<std::size_t>(base_token);
    if (law.membership[at] == Membership::out) {
      outcome.fail(fmt::format("token {} (logit {}) is outside of the support ({})", token,
                               request.row(static_cast<std::int64_t>(output))[token],
                               describe(request.parameters[output])));
      return;
    }
    if (law.membership[at] != Membership::in) continue;
    const std::uint64_t word = mixed(seed, i);
    const std::int64_t shift = shifts[output];
    const double start =
        shift == 0 ? 0 : law.prefix_by_id[static_cast<std::size_t>(shift - 1)] / total;
    double by_id = statistics::randomized_pit(law.prefix_by_id, base_token, word) - start;
    if (by_id < 0) by_id += 1;
    // Rounding may land exactly on an end, where normal scores are infinite.
    streams.by_id.push_back(std::clamp(by_id, 0x1p-53, 1 - 0x1p-53));
    streams.by_rank.push_back(
        statistics::randomized_pit(law.prefix_by_rank, law.rank_of[at], mixed(~seed, i)));
  }
}

}  // namespace

CheckOutcome check_pit(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const std::int64_t vocab = input.logits->vocab();
  const std::int64_t rotations_per_base = std::min({kRotations, vocab, input.rows});
  const std::int64_t bases = input.rows / rotations_per_base;
  const auto samples = static_cast<std::int32_t>(
      sampler.num_samples
          ? std::max<std::int64_t>(1, static_cast<std::int64_t>(input.draws) / input.rows)
          : 1);
  const auto draws = static_cast<std::uint64_t>(bases * rotations_per_base * samples);
  const double level = input.false_fail_rate / kStatistics;
  const double min_discrepancy = statistics::dkwm_min_discrepancy(draws, level, kFalsePassRate);
  if (min_discrepancy > input.declared_discrepancy) {
    CheckOutcome outcome =
        underpowered(fmt::format("{} draws find a distance of {:.5f}, the case states {:.5f}",
                                 draws, min_discrepancy, input.declared_discrepancy));
    outcome.min_discrepancy = min_discrepancy;
    return outcome;
  }

  CheckOutcome outcome;
  outcome.min_discrepancy = min_discrepancy;
  Streams streams;
  for (std::int64_t base_row = 0; base_row < bases && !outcome.failed(); ++base_row) {
    const Request base = make_request(input, base_row, 1);
    if (const std::string lacks = missing_ability(sampler, base); !lacks.empty()) {
      return skipped(lacks);
    }
    const BaseLaw law = base_law(input, base);
    if (law.prefix_by_id.back() <= 0) continue;  // undefined, a failure, or all ambiguous
    const std::uint64_t seed = mixed(input.seed, static_cast<std::uint64_t>(base_row));
    const std::int64_t step = vocab / rotations_per_base;  // shifts differ: one a block of `step`
    for (std::int64_t first = 0; first < rotations_per_base; first += kRowsPerCall) {
      std::vector<std::int64_t> shifts;
      for (std::int64_t i = first; i < std::min(first + kRowsPerCall, rotations_per_base); ++i) {
        const auto at = static_cast<std::uint64_t>(i);
        shifts.push_back(i * step + static_cast<std::int64_t>(mixed(seed, at) %
                                                              static_cast<std::uint64_t>(step)));
      }
      const std::uint64_t call_seed = mixed(~seed, static_cast<std::uint64_t>(first));
      const Request request = rotations(base, shifts, call_seed, samples);
      const Response response = run_request(*input.sampler, request, {});
      if (!response.ran()) return outcome.fail(response.trouble());
      transform(law, request, response, shifts, ~call_seed, streams, outcome);
      if (outcome.failed()) return outcome;
      outcome.rows += static_cast<std::uint64_t>(request.rows);
    }
  }

  if (outcome.draws == 0) {
    return skipped("semantics " + input.semantics.name + " gives these rows no law");
  }
  const auto certain = static_cast<std::uint64_t>(streams.by_id.size());
  if (statistics::dkwm_min_discrepancy(std::max<std::uint64_t>(certain, 1), level, kFalsePassRate) >
      input.declared_discrepancy * 1.1) {
    return underpowered(
        fmt::format("only {} of {} draws fell on tokens that certainly belong to "
                    "their support",
                    certain, outcome.draws));
  }
  double smallest = 1;
  const auto judge = [&](const std::string& name, double p_value) {
    outcome.spent += level;
    smallest = std::min(smallest, p_value);
    outcome.measures[name + "_p_value"] = p_value;
    if (p_value >= level) return;
    outcome.fail(fmt::format("{} after {} draws of {} rows: p {:.2e}, level {:.1e}", name,
                             outcome.draws, outcome.rows, p_value, level));
  };
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.statistic = statistics::uniform_distance(streams.by_rank);
  judge("uniformity_by_probability", statistics::uniformity_p_value(streams.by_rank));
  judge("uniformity_by_id", statistics::uniformity_p_value(streams.by_id));
  judge("lag_1", statistics::lag_correlation_p_value(streams.by_id, 1));
  const auto next_row = static_cast<std::size_t>(std::max(samples, 2));
  judge(fmt::format("lag_{}", next_row),
        statistics::lag_correlation_p_value(streams.by_id, next_row));
  outcome.p_value = std::min(1.0, smallest * kStatistics);
  if (!outcome.failed()) {
    outcome.message = fmt::format(
        "{} draws of {} rows are uniform through their laws: distance "
        "{:.5f}",
        outcome.draws, outcome.rows, *outcome.statistic);
  }
  return outcome;
}

}  // namespace fairdraw::harness
