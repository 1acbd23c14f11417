// Draws from many different rows: each is put through the distribution of its own row, and what
// comes out must be uniform and independent.
#include "harness/statistics/pit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/certain_distribution.h"
#include "harness/run/checks/statistical/two_stages.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// Rows are rotations of base rows: row i holds base[(i + shift) mod vocab]. A sampler sees a
// different row each time, at other ids and other vector lanes, and the distribution costs one
// oracle for all of them: in the order of ids, rotation shifts the transform by a constant,
// modulo 1.
constexpr std::int64_t kRotations = 64;
constexpr std::int64_t kRowsPerCall = 32;
// Two orderings and two lags; three statistics of pairs of rows, and of pairs of calls.
constexpr std::size_t kSerialStatistics = 4, kPairStatistics = 6;

struct BaseDistribution {
  std::vector<Membership> membership;
  std::vector<bool> has_frequency;
  std::vector<double> prefix_by_id;
  std::vector<double> prefix_by_rank;
  std::vector<std::uint32_t> rank_of;
};

BaseDistribution base_distribution(const CheckInput& input, const Request& base) {
  reference::RealDistribution distribution = distribution_of(input, base, 0);
  BaseDistribution result;
  std::vector<double>& probability = distribution.probability;
  for (std::size_t token = 0; token < probability.size(); ++token) {
    result.has_frequency.push_back(distribution.has_frequency(token));
    if (!result.has_frequency.back()) probability[token] = 0;
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
  result.membership = std::move(distribution.membership);
  return result;
}

// Values of two streams that a sampler must draw independently, place by place.
struct Pairs {
  std::vector<double> first, second;
};

struct Streams {
  std::vector<double> by_id, by_rank;
  Pairs rows;   ///< neighbouring outputs of a call
  Pairs calls;  ///< the same output of two calls that follow each other
};

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();  // an ambiguous token's

void add_pairs(std::span<const double> first, std::span<const double> second, Pairs& pairs) {
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (std::isnan(first[i]) || std::isnan(second[i])) continue;
    pairs.first.push_back(first[i]);
    pairs.second.push_back(second[i]);
  }
}

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

// Adds a call's tokens to the streams; returns their values by id [tokens], kNoValue where the
// token is ambiguous.
std::vector<double> transform(const BaseDistribution& distribution, const Request& request,
                              const Response& response, const std::vector<std::int64_t>& shifts,
                              std::uint64_t seed, Streams& streams, CheckOutcome& outcome) {
  const double total = distribution.prefix_by_id.back();
  std::vector<double> values(response.tokens.size(), kNoValue);
  for (std::size_t i = 0; i < response.tokens.size(); ++i) {
    ++outcome.draws;
    const std::size_t output = i / static_cast<std::size_t>(request.num_samples);
    const std::int64_t token = response.tokens[i];
    if (token < 0 || token >= request.vocab) {
      outcome.fail(fmt::format("token {} is outside of the vocabulary", token));
      return values;
    }
    const std::int64_t base_token = (token + shifts[output]) % request.vocab;
    const auto at = static_cast<std::size_t>(base_token);
    if (distribution.membership[at] == Membership::out) {
      outcome.fail(fmt::format("token {} (logit {}) is outside of the support ({})", token,
                               request.row(static_cast<std::int64_t>(output))[token],
                               describe(request.parameters[output])));
      return values;
    }
    if (!distribution.has_frequency[at]) continue;
    const std::uint64_t word = mixed(seed, i);
    const std::int64_t shift = shifts[output];
    const double start =
        shift == 0 ? 0 : distribution.prefix_by_id[static_cast<std::size_t>(shift - 1)] / total;
    double by_id = statistics::randomized_pit(distribution.prefix_by_id, base_token, word) - start;
    if (by_id < 0) by_id += 1;
    // Rounding may land exactly on an end, where normal scores are infinite.
    values[i] = std::clamp(by_id, 0x1p-53, 1 - 0x1p-53);
    streams.by_id.push_back(values[i]);
    streams.by_rank.push_back(statistics::randomized_pit(
        distribution.prefix_by_rank, distribution.rank_of[at], mixed(~seed, i)));
  }
  return values;
}

struct Plan {
  std::int64_t rotations = 0;  ///< of each base row
  std::int64_t bases = 0;
  std::int64_t samples = 1;    ///< of an output
  std::int64_t repeats = 1;    ///< of a call, where a sampler draws one token an output
  std::size_t statistics = 0;  ///< that share the level
  bool pairs = false;          ///< different seeds must give independent draws
};

// All draws, in calls of kRowsPerCall rotations. `seed` gives the shifts and the random words.
Streams gather(const CheckInput& input, const Plan& plan, std::uint64_t seed,
               CheckOutcome& outcome) {
  Streams streams;
  std::vector<double> previous;  // of a call that waits for its partner
  const std::int64_t vocab = input.logits->vocab();
  for (std::int64_t base_row = 0; base_row < plan.bases; ++base_row) {
    const Request base = make_request(input, base_row, 1);
    const BaseDistribution distribution = base_distribution(input, base);
    if (distribution.prefix_by_id.back() <= 0) continue;  // undefined, a failure, or all ambiguous
    const std::uint64_t row_seed = mixed(seed, static_cast<std::uint64_t>(base_row));
    const std::int64_t step = vocab / plan.rotations;  // shifts differ: one a block of `step`
    for (std::int64_t first = 0; first < plan.rotations; first += kRowsPerCall) {
      std::vector<std::int64_t> shifts;
      for (std::int64_t i = first; i < std::min(first + kRowsPerCall, plan.rotations); ++i) {
        const auto at = static_cast<std::uint64_t>(i);
        shifts.push_back(i * step + static_cast<std::int64_t>(mixed(row_seed, at) %
                                                              static_cast<std::uint64_t>(step)));
      }
      for (std::int64_t repeat = 0; repeat < plan.repeats; ++repeat) {
        std::uint64_t call_seed = mixed(~row_seed, static_cast<std::uint64_t>(first));
        if (repeat > 0) call_seed = mixed(call_seed, static_cast<std::uint64_t>(repeat));
        const Request request =
            rotations(base, shifts, call_seed, static_cast<std::int32_t>(plan.samples));
        const Response response = run_request(*input.sampler, request, {});
        if (!response.ran()) outcome.fail(response.trouble());
        if (outcome.failed()) return streams;
        const std::vector<double> values =
            transform(distribution, request, response, shifts, ~call_seed, streams, outcome);
        if (outcome.failed()) return streams;
        if (repeat == 0) outcome.rows += static_cast<std::uint64_t>(request.rows);

        const std::span all(values);
        const auto samples = static_cast<std::size_t>(plan.samples);
        for (std::size_t at = 0; at + 2 * samples <= values.size(); at += 2 * samples) {
          add_pairs(all.subspan(at, samples), all.subspan(at + samples, samples), streams.rows);
        }
        if (previous.empty()) {
          previous = values;
        } else {
          add_pairs(previous, values, streams.calls);
          previous.clear();
        }
      }
    }
  }
  return streams;
}

constexpr std::uint32_t kBins = 16;

// What dependence between streams shows in: their correlation, its sign alone (which no outlier
// moves), and a table of 16 x 16 cells, for dependence without correlation.
void judge_pairs(const std::string& name, const Pairs& pairs,
                 const std::function<void(const std::string&, double)>& judge) {
  if (pairs.first.empty()) return;
  judge(name + "_correlation", statistics::pair_correlation_p_value(pairs.first, pairs.second));
  judge(name + "_agreement", statistics::pair_agreement_p_value(pairs.first, pairs.second));
  const std::vector<double> uniform(std::size_t{kBins} * kBins, 1.0 / (kBins * kBins));
  judge(name + "_table", statistics::goodness_of_fit(
                             statistics::pair_counts(pairs.first, pairs.second, kBins), uniform)
                             .g_p_bound);
}

std::vector<Finding> findings_of(const CheckInput& input, const Plan& plan, const Streams& streams,
                                 const CheckOutcome& outcome) {
  std::vector<Finding> findings;
  const std::function<void(const std::string&, double)> judge = [&](const std::string& name,
                                                                    double p_value) {
    findings.push_back(
        {.name = name,
         .p_value = p_value,
         .level = input.false_fail_rate / static_cast<double>(plan.statistics),
         .what = fmt::format("{} after {} draws of {} rows", name, outcome.draws, outcome.rows)});
  };
  judge("uniformity_by_probability", statistics::uniformity_p_value(streams.by_rank));
  judge("uniformity_by_id", statistics::uniformity_p_value(streams.by_id));
  const auto lag = [&](std::size_t distance) {
    if (distance >= streams.by_id.size()) return;
    judge(fmt::format("lag_{}", distance),
          statistics::lag_correlation_p_value(streams.by_id, distance));
  };
  lag(1);
  lag(static_cast<std::size_t>(std::max<std::int64_t>(plan.samples, 2)));
  if (plan.pairs) {
    judge_pairs("rows", streams.rows, judge);
    judge_pairs("calls", streams.calls, judge);
  }
  return findings;
}

// The p-values of dependence as scores: of pairs of streams, and along the stream.
void note_dependence(const std::vector<Finding>& findings, CheckOutcome& outcome) {
  Dependence pairs{
      "pairs of streams", {"rows", "calls"}, {"correlation", "agreement", "table"}, {}, 0};
  Dependence lags{"along the stream", {"draws by id"}, {}, {}, 0};
  pairs.z.assign(6, std::numeric_limits<double>::quiet_NaN());
  bool has_pairs = false;
  for (const Finding& finding : findings) {
    const double bound = score_of(TwoStages(finding.level).each);
    if (finding.name.starts_with("lag_")) {
      lags.columns.push_back("lag " + finding.name.substr(4));
      lags.z.push_back(score_of(finding.p_value));
      lags.bound = bound;
    }
    for (std::size_t i = 0; i < pairs.z.size(); ++i) {
      if (finding.name != pairs.rows[i / 3] + "_" + pairs.columns[i % 3]) continue;
      pairs.z[i] = score_of(finding.p_value);
      pairs.bound = bound;
      has_pairs = true;
    }
  }
  if (has_pairs) outcome.evidence.dependence.push_back(std::move(pairs));
  if (!lags.z.empty()) outcome.evidence.dependence.push_back(std::move(lags));
}

}  // namespace

CheckOutcome check_pit(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request one = make_request(input, 0, 1);
  if (const std::string lacks = missing_ability(sampler, one); !lacks.empty()) {
    return skipped(lacks);
  }
  // Captured rows are few: they are turned more often, so that the whole file is used once.
  const std::int64_t files_rows = input.logits->rows();
  const std::int64_t per_base =
      std::max(kRotations, input.rows / files_rows + (input.rows % files_rows == 0 ? 0 : 1));
  Plan plan;
  plan.rotations = std::min({per_base, input.logits->vocab(), input.rows});
  plan.bases = input.rows / plan.rotations;
  // The same number of draws of each row, whether they come from one output or from many calls.
  const std::int64_t draws_a_row =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(input.draws) / input.rows);
  (sampler.num_samples ? plan.samples : plan.repeats) = draws_a_row;
  plan.pairs = sampler.randomness.seeds;
  plan.statistics = plan.pairs ? kSerialStatistics + kPairStatistics : kSerialStatistics;
  const auto draws =
      static_cast<std::uint64_t>(plan.bases * plan.rotations * plan.samples * plan.repeats);
  const TwoStages levels(input.false_fail_rate / static_cast<double>(plan.statistics));
  const auto found_by = [&](std::uint64_t number) {
    return statistics::dkwm_min_discrepancy(std::max<std::uint64_t>(number, 1), levels.each,
                                            kFalsePassRateOfALook);
  };
  if (found_by(draws) > input.declared_discrepancy) {
    CheckOutcome outcome =
        underpowered(fmt::format("{} draws find a distance of {:.5f}, the case states {:.5f}",
                                 draws, found_by(draws), input.declared_discrepancy));
    outcome.min_discrepancy = found_by(draws);
    return outcome;
  }

  CheckOutcome outcome;
  outcome.min_discrepancy = found_by(draws);
  Streams streams = gather(input, plan, input.seed, outcome);
  if (outcome.failed()) return outcome;
  if (outcome.draws == 0) {
    return skipped("semantics " + input.semantics.name + " gives these rows no distribution");
  }
  const auto certain = static_cast<std::uint64_t>(streams.by_id.size());
  if (found_by(certain) > input.declared_discrepancy * 1.1) {
    return underpowered(
        fmt::format("only {} of {} draws fell on tokens that certainly belong to "
                    "their support",
                    certain, outcome.draws));
  }
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.statistic = statistics::uniform_distance(streams.by_rank);
  const auto look_at = [&](int look) {
    if (look > 0) streams = gather(input, plan, mixed(input.seed, ~std::uint64_t{0}), outcome);
    if (outcome.failed() || streams.by_id.empty()) return std::vector<Finding>();
    std::vector<Finding> findings = findings_of(input, plan, streams, outcome);
    if (look > 0) return findings;
    note_p_values(findings, outcome);
    note_dependence(findings, outcome);
    const double each = findings.front().level;
    outcome.evidence.pit = {pit_ecdf("by probability", streams.by_rank, TwoStages(each).each),
                            pit_ecdf("by id", streams.by_id, TwoStages(each).each)};
    outcome.evidence.power = power_of("dkwm", 0, each, kFalsePassRate, input.declared_discrepancy,
                                      streams.by_id.size(), found_by);
    std::vector<double> p_values;
    for (const Finding& finding : findings) p_values.push_back(finding.p_value);
    outcome.p_value = statistics::bonferroni_p_value(p_values);
    return findings;
  };
  judge_in_two_stages(look_at, outcome);
  if (!outcome.failed()) {
    outcome.message = fmt::format(
        "{} draws of {} rows are uniform through their distributions: distance "
        "{:.5f}",
        outcome.draws, outcome.rows, *outcome.statistic);
  }
  return outcome;
}

}  // namespace fairdraw::harness
