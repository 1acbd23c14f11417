// Judges draws from many different rows: each draw is transformed by the distribution of its own
// row, and the transformed values must be uniform and independent.
#include "harness/statistics/pit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/pit_bands.h"
#include "harness/run/checks/statistical/row_transform.h"
#include "harness/run/checks/statistical/two_stages.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// The rows are rotations of base rows: row i has the values base[(i + shift) mod vocab]. A sampler
// sees a different row each time, at other ids and vector lanes, while one answer of the oracle
// serves all of them: in the order of ids, rotation shifts the transform by a constant, modulo 1.
// If each row has its own parameters, each row is a base row of its own.
constexpr std::int64_t kRotations = 64;
// Few calls are made, because each call of a plugin costs a message: a call has at most 2^21 logits
// and 1024 rows.
constexpr std::int64_t kLogitsPerCall = std::int64_t{1} << 21, kRowsPerCall = 1024;
// The serial statistics are for two orderings and two lags. Pairs of rows have three statistics,
// and so have pairs of calls.
constexpr std::size_t kSerialStatistics = 4, kPairStatistics = 6;

struct BaseRow {
  Request request;
  RowTransform distribution;
};

// One row of a call, which is a rotated base row.
struct TurnedRow {
  std::shared_ptr<const BaseRow> base;
  std::size_t parameters;  ///< index of the row's parameters in the input
  std::int64_t shift;
};

// The values of two streams that the sampler must draw independently, index by index.
struct Pairs {
  std::vector<double> first, second;
};

struct Streams {
  std::vector<double> by_id, by_rank;
  std::vector<std::size_t> parameters;  ///< for each value, the index of its parameters
  std::vector<std::size_t> sample;      ///< for each value, its number in its output
  Pairs rows;                           ///< pairs of neighbouring outputs of a call
  Pairs calls;                          ///< pairs of the same output in two consecutive calls
};

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();  // for ambiguous tokens

void add_pairs(std::span<const double> first, std::span<const double> second, Pairs& pairs) {
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (std::isnan(first[i]) || std::isnan(second[i])) continue;
    pairs.first.push_back(first[i]);
    pairs.second.push_back(second[i]);
  }
}

// The number of draws of a row that are made at once, for each kind of draw.
struct DrawsOfARow {
  std::int64_t samples = 1;  ///< per output
  std::int64_t outputs = 1;  ///< number of outputs per row, through `indices`
  std::int64_t repeats = 1;  ///< number of calls, if the sampler has neither outputs nor samples
};

// Returns one call with rotated rows, and a seed for each output.
Request call_of(const std::vector<TurnedRow>& rows, const DrawsOfARow& draws, std::uint64_t seed) {
  const Request& first = rows.front().base->request;
  Request request = first;
  request.rows = static_cast<std::int64_t>(rows.size());
  request.num_samples = static_cast<std::int32_t>(draws.samples);
  request.with_indices = draws.outputs > 1;
  request.logits.clear();
  request.logits.reserve(rows.size() * static_cast<std::size_t>(first.vocab));
  request.parameters.clear();
  request.seed.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float>& values = rows[i].base->request.logits;
    std::vector<float>& turned = request.logits;
    turned.insert(turned.end(), values.begin() + rows[i].shift, values.end());
    turned.insert(turned.end(), values.begin(), values.begin() + rows[i].shift);
    request.parameters.push_back(rows[i].base->request.parameters.front());
    for (std::int64_t output = 0; output < draws.outputs; ++output) {
      if (request.with_indices) request.indices.push_back(static_cast<std::int32_t>(i));
      request.seed.push_back(mixed(seed, request.seed.size()));
    }
  }
  request.offset.assign(request.seed.size(), 0);
  return request;
}

// Adds a call's tokens to the streams. Returns the transformed values by id [tokens], which are
// kNoValue for ambiguous tokens.
std::vector<double> transform(const std::vector<TurnedRow>& rows, const Request& request,
                              const Response& response, std::uint64_t seed, Streams& streams,
                              CheckOutcome& outcome) {
  const std::size_t draws_a_row = response.tokens.size() / rows.size();
  std::vector<double> values(response.tokens.size(), kNoValue);
  for (std::size_t i = 0; i < response.tokens.size(); ++i) {
    ++outcome.draws;
    const TurnedRow& row = rows[i / draws_a_row];
    const RowTransform& distribution = row.base->distribution;
    const std::int64_t token = response.tokens[i];
    if (token < 0 || token >= request.vocab) {
      outcome.fail(fmt::format("token {} is outside of the vocabulary", token));
      return values;
    }
    const std::int64_t base_token = (token + row.shift) % request.vocab;
    const auto at = static_cast<std::size_t>(base_token);
    if (distribution.membership[at] == Membership::out) {
      outcome.fail(fmt::format("token {} (logit {}) is outside of the support ({})", token,
                               row.base->request.logits[at],
                               describe(row.base->request.parameters.front())));
      return values;
    }
    if (!distribution.has_frequency[at]) continue;
    const std::uint64_t word = mixed(seed, i);
    const double start = row.shift == 0
                             ? 0
                             : distribution.by_id[static_cast<std::size_t>(row.shift - 1)] /
                                   distribution.by_id.back();
    double by_id = statistics::randomized_pit(distribution.by_id, base_token, word) - start;
    if (by_id < 0) by_id += 1;
    // Rounding may give exactly 0 or 1, where normal scores are infinite.
    values[i] = std::clamp(by_id, 0x1p-53, 1 - 0x1p-53);
    streams.by_id.push_back(values[i]);
    streams.by_rank.push_back(statistics::randomized_pit(
        distribution.by_rank, distribution.rank_of[at], mixed(~seed, i)));
    streams.parameters.push_back(row.parameters);
    streams.sample.push_back(i % static_cast<std::size_t>(request.num_samples));
  }
  return values;
}

struct Plan {
  std::int64_t rotations = 0;  ///< per base row
  std::int64_t bases = 0;
  DrawsOfARow draws = {};
  std::size_t statistics = 0;  ///< number of statistics that share the error rate
  bool pairs = false;          ///< true if different seeds must be independent
  bool operations = false;     ///< there are few parameters, so the draws of each are judged
  std::vector<VaryingParameter> varying = {};

  std::int64_t rows() const { return bases * rotations; }
  bool has_samples() const { return draws.samples > 1; }
  std::int64_t draws_a_row() const { return draws.samples * draws.outputs * draws.repeats; }
};

// Makes one call and its repetitions. The argument `previous` has the values of a call that waits
// for its partner.
void judge_call(const CheckInput& input, const std::vector<TurnedRow>& rows, const Plan& plan,
                std::uint64_t seed, std::vector<double>& previous, Streams& streams,
                CheckOutcome& outcome) {
  outcome.rows += rows.size();
  for (std::int64_t repeat = 0; repeat < plan.draws.repeats; ++repeat) {
    const std::uint64_t call_seed = mixed(seed, static_cast<std::uint64_t>(repeat));
    const Request request = call_of(rows, plan.draws, call_seed);
    const Response response = run_request(*input.sampler, request, {});
    if (!response.ran()) outcome.fail(response.trouble());
    if (outcome.failed()) return;
    const std::vector<double> values =
        transform(rows, request, response, ~call_seed, streams, outcome);
    if (outcome.failed()) return;

    const std::span all(values);
    const std::size_t draws = values.size() / rows.size();
    for (std::size_t at = 0; at + 2 * draws <= values.size(); at += 2 * draws) {
      add_pairs(all.subspan(at, draws), all.subspan(at + draws, draws), streams.rows);
    }
    if (previous.empty()) {
      previous = values;
    } else {
      add_pairs(previous, values, streams.calls);
      previous.clear();
    }
  }
}

// Makes all draws. The argument `seed` determines the shifts of rows and the random words.
Streams gather(const CheckInput& input, const Plan& plan, std::uint64_t seed,
               CheckOutcome& outcome) {
  Streams streams;
  std::vector<double> previous;
  const std::int64_t vocab = input.logits->vocab();
  // Shifts of different rows are in different blocks of `step` ids.
  const std::int64_t step = vocab / plan.rotations;
  const auto rows_a_call =
      static_cast<std::size_t>(std::clamp(kLogitsPerCall / vocab, std::int64_t{1}, kRowsPerCall));
  std::vector<TurnedRow> call;
  std::shared_ptr<const BaseRow> base_of_row;
  for (std::int64_t row = 0; row < plan.rows(); ++row) {
    const std::int64_t base_row = row / plan.rotations;
    if (row % plan.rotations == 0) {
      BaseRow made{.request = make_request(input, base_row, 1), .distribution = {}};
      made.distribution = row_transform(input, made.request, 0);
      base_of_row = std::make_shared<const BaseRow>(std::move(made));
    }
    if (base_of_row->distribution.judged()) {
      const std::uint64_t word = mixed(seed, static_cast<std::uint64_t>(row));
      const std::int64_t shift = row % plan.rotations * step +
                                 static_cast<std::int64_t>(word % static_cast<std::uint64_t>(step));
      call.push_back(
          {base_of_row, static_cast<std::size_t>(base_row) % input.parameters.size(), shift});
    }
    const bool ends = call.size() == rows_a_call || row + 1 == plan.rows();
    if (!ends || call.empty()) continue;
    judge_call(input, call, plan, mixed(~seed, static_cast<std::uint64_t>(row)), previous, streams,
               outcome);
    if (outcome.failed()) return streams;
    call.clear();
  }
  return streams;
}

constexpr std::uint32_t kBins = 16;

// Judges dependence between streams: their correlation, their agreement in sign (which outliers do
// not change), and a table of 16 x 16 cells, for dependence without correlation.
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
  lag(static_cast<std::size_t>(std::max<std::int64_t>(plan.draws_a_row() / plan.draws.repeats, 2)));
  if (plan.pairs) {
    judge_pairs("rows", streams.rows, judge);
    judge_pairs("calls", streams.calls, judge);
  }
  const auto judge_groups = [&](const char* name, const std::vector<std::size_t>& group) {
    // Wrong weights are detected in the order by rank, and wrong random words in the order by id.
    BandFit fit = fit_in_groups(group, streams.by_rank);
    const BandFit by_id = fit_in_groups(group, streams.by_id);
    if (by_id.p_value < fit.p_value) fit = by_id;
    judge(name, std::min(1.0, 2 * fit.p_value));
    findings.back().what =
        fmt::format("the distribution functions are off by {:.4g} in {} of {} draws, those ",
                    fit.distance, fit.draws, outcome.draws);
    return static_cast<std::size_t>(fit.low);
  };
  if (plan.operations) {
    const std::size_t worst = judge_groups("one_operation", streams.parameters);
    findings.back().what += "at " + describe(input.parameters[worst]);
  }
  if (plan.has_samples()) {
    const std::size_t worst = judge_groups("one_sample_of_many", streams.sample);
    findings.back().what +=
        fmt::format("of sample {} of {} of each output", worst, plan.draws.samples);
  }
  for (const VaryingParameter& parameter : plan.varying) {
    std::vector<double> keys;
    for (const std::size_t number : streams.parameters) keys.push_back(parameter.value[number]);
    const BandFit fit = fit_in_bands(keys, streams.by_rank);
    judge(fmt::format("bands_of_{}", parameter.name), fit.p_value);
    findings.back().what = fmt::format(
        "at {} from {:.5g} to {:.5g} the distribution functions are off by {:.4g} in "
        "{} of {} draws",
        parameter.name, fit.low, fit.high, fit.distance, fit.draws, outcome.draws);
  }
  return findings;
}

// Records the p-values of dependence as scores: for pairs of streams, and within the stream.
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
  Plan plan;
  plan.varying = varying_parameters(input);
  const auto different = static_cast<std::int64_t>(input.parameters.size());
  plan.operations = different > 1 && input.rows / different >= kRotations;
  // Rows of different operations differ in the filters that they need.
  const Request asked = make_request(input, 0, plan.operations ? different : 1);
  if (const Lack lacks = lack_for(sampler, asked); !lacks.empty()) return skipped(lacks);
  if (plan.operations) plan.varying.clear();
  // There are few captured rows, so they are rotated more often, and the whole file is used once.
  const std::int64_t files_rows = input.logits->rows();
  const std::int64_t per_base =
      plan.varying.empty()
          ? std::max(kRotations, input.rows / files_rows + (input.rows % files_rows == 0 ? 0 : 1))
          : 1;
  plan.rotations = std::min({per_base, input.logits->vocab(), input.rows});
  plan.bases = input.rows / plan.rotations;
  // The number of draws per row is the same, whether they come from one output or from many calls.
  const std::int64_t draws_a_row =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(input.draws) / input.rows);
  (sampler.num_samples ? plan.draws.samples
   : sampler.indices   ? plan.draws.outputs
                       : plan.draws.repeats) = draws_a_row;
  plan.pairs = sampler.randomness.seeds;
  plan.statistics = kSerialStatistics + (plan.pairs ? kPairStatistics : 0) + plan.varying.size() +
                    (plan.operations ? 1U : 0U) + (plan.has_samples() ? 1U : 0U);
  const auto draws = static_cast<std::uint64_t>(plan.rows() * plan.draws_a_row());
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
    CheckOutcome weak =
        underpowered(fmt::format("only {} of {} draws fell on tokens that certainly belong to "
                                 "their support",
                                 certain, outcome.draws));
    weak.draws = outcome.draws;  // so that the caller tries no other row after these draws
    weak.rows = outcome.rows;
    return weak;
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
