// Judges the probabilities and log-probabilities that a sampler returns with its tokens.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/probability_rows.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

constexpr double kLn2 = 0.69314718055994530942;

struct RealRow {
  reference::RealDistribution distribution;
  double largest = 0;                    // largest allowed logit
  double inverse_ln2 = 0;                // number of octaves per unit of logit: 1 / (T ln 2)
  double normalizer_error = 0;           // relative error of the sum over all allowed tokens
  double filtered_normalizer_error = 0;  // relative error of the sum over the survivors
  double filtered_share = 0;             // mass of the survivors over that of all allowed tokens
  double temperature_error = 0;          // relative error of the temperature
  double mean_distance = 0;              // of the survivors' logits from the largest, over T
  double quotient_error = 0;             // absolute error of a logit over T
  std::vector<double> unfiltered;        // [vocab] exp((x - max) / T) / sum
};

// Returns the bound on the relative error of a token's weight.
double weight_error(const reference::WeightBound& bound, const RealRow& row, double logit) {
  return bound.at((row.largest - logit) * row.inverse_ln2);
}

bool is_allowed(const Request& request, std::int64_t row, std::int64_t token) {
  if (std::isinf(request.row(row)[token])) return false;
  if (request.allowed.empty()) return true;
  const auto word = static_cast<std::size_t>(row * words_for(request.vocab) + token / 32);
  return ((request.allowed[word] >> (token % 32)) & 1U) != 0;
}

RealRow real_row(const CheckInput& input, const Request& request, std::int64_t row,
                 const reference::WeightBound& bound) {
  RealRow real;
  real.distribution = distribution_of(input, request, row);
  const float stated = parameters_now(request, row).temperature;
  const double temperature = stated == 0 ? 1 : static_cast<double>(stated);
  real.inverse_ln2 = 1 / (temperature * kLn2);
  real.largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    if (!is_allowed(request, row, id)) continue;
    real.largest = std::max(real.largest, static_cast<double>(request.row(row)[id]));
  }
  real.unfiltered.assign(static_cast<std::size_t>(request.vocab), 0);
  double sum = 0;
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    if (!is_allowed(request, row, id)) continue;
    const double distance = static_cast<double>(request.row(row)[id]) - real.largest;
    sum += real.unfiltered[static_cast<std::size_t>(id)] = std::exp(distance / temperature);
  }
  double error = 0, filtered_error = 0, kept = 0;
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    double& probability = real.unfiltered[static_cast<std::size_t>(id)];
    if (probability == 0) continue;
    probability /= sum;
    // The relative error of a weight is at most 1, because truncation only makes a weight smaller.
    const double off =
        probability *
        std::min(1.0, weight_error(bound, real, static_cast<double>(request.row(row)[id])));
    error += off;
    if (real.distribution.membership[static_cast<std::size_t>(id)] != Membership::in) continue;
    kept += probability;
    filtered_error += off;
  }
  real.normalizer_error = error;
  real.filtered_share = kept;
  real.filtered_normalizer_error = filtered_error / kept;
  return real;
}

// Returns the largest distance of a float32 log-probability from the real value: the relative
// errors of weight and sum, and three roundings of the float32 result and its two logarithms (2^-24
// of each term).
double log_bound(double weight, double sum, double log_probability) {
  return -std::log1p(-weight) - std::log1p(-sum) +
         3 * 0x1p-24 * std::max(1.0, std::fabs(log_probability));
}

double distance_over_temperature(const Request& request, std::int64_t row, std::int64_t token,
                                 const RealRow& real) {
  return (real.largest - static_cast<double>(request.row(row)[token])) * real.inverse_ln2 * kLn2;
}

std::string compare_probs(const CheckInput& input, const Request& request, const Response& response,
                          std::int64_t row, const RealRow& real,
                          const reference::WeightBound& bound) {
  const reference::IntegerRow model = model_of(request, row);
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    const auto at = static_cast<std::size_t>(id);
    const float observed = response.probs[static_cast<std::size_t>(row * request.vocab + id)];
    if (input.exact()) {
      const float expected =
          model.mask[at] != 0 ? model.probability(static_cast<std::int32_t>(id)) : 0.0F;
      if (std::memcmp(&observed, &expected, sizeof(float)) == 0) continue;
      return fmt::format("probability of token {} is {}, the integer model says {}", id, observed,
                         expected);
    }
    const Membership membership = real.distribution.membership[at];
    if (real.distribution.ambiguous_mass > 0 || membership == Membership::ambiguous) continue;
    if (real.distribution.partly_drawn >= 0)
      continue;  // because all probabilities depend on the
                 // share of this token
    const double expected = membership == Membership::in ? real.distribution.probability[at] : 0;
    const double weight =
        std::min(1.0, weight_error(bound, real, static_cast<double>(request.row(row)[id])));
    // A temperature that is off by a factor moves ln p by that factor of the token's distance over
    // T, and of the mean distance.
    double by_temperature = 0;
    if (expected > 0 && real.temperature_error > 0) {
      by_temperature = real.temperature_error *
                       (distance_over_temperature(request, row, id, real) + real.mean_distance);
    }
    const double slack = expected * (weight + real.filtered_normalizer_error + by_temperature +
                                     2 * real.quotient_error + 0x1p-23) +
                         0x1p-149;  // two roundings of float32, and its smallest step
    if (std::fabs(static_cast<double>(observed) - expected) <= slack) continue;
    return fmt::format("probability of token {} is {}, expected {:.9g} within {:.1e}", id, observed,
                       expected, slack);
  }
  return {};
}

// The argument `at` is the index of the token in the response.
std::string compare_logprobs(const Request& request, const Response& response, std::int64_t row,
                             std::size_t at, const RealRow& real,
                             const reference::WeightBound& bound, CheckOutcome& outcome) {
  const std::int32_t token = response.tokens[at];
  const double probability = real.unfiltered[static_cast<std::size_t>(token)];
  const double weight = weight_error(bound, real, static_cast<double>(request.row(row)[token]));
  if (probability == 0 || weight >= 0.5) return {};  // truncation leaves too few bits of the weight
  ++outcome.measures["logprobs"];
  const double expected = std::log(probability);
  const double slack = log_bound(weight, real.normalizer_error, expected);
  const double observed = static_cast<double>(response.logprob[at]);
  if (!(std::fabs(observed - expected) <= slack)) {
    return fmt::format("logprob of token {} is {}, expected {:.9g} within {:.1e}", token, observed,
                       expected, slack);
  }
  if (real.distribution.ambiguous_mass > 0) return {};
  const double filtered = std::log(probability / real.filtered_share);
  const double filtered_slack = log_bound(weight, real.filtered_normalizer_error, filtered);
  const double observed_filtered = static_cast<double>(response.logprob_filtered[at]);
  if (!(std::fabs(observed_filtered - filtered) <= filtered_slack) || observed_filtered > 0) {
    return fmt::format("logprob_filtered of token {} is {}, expected {:.9g} within {:.1e}", token,
                       observed_filtered, filtered, filtered_slack);
  }
  return {};
}

// Makes three samples of two outputs per row, in another order than that of the rows. Each sample
// of an output has its own log-probability.
std::string compare_samples(const CheckInput& input, const Request& rows,
                            const std::vector<RealRow>& distributions,
                            const reference::WeightBound& bound, CheckOutcome& outcome) {
  Request request = rows;
  request.with_indices = true;
  request.num_samples = 3;
  request.seed.clear();
  request.offset.clear();
  for (std::int64_t i = 0; i < 2 * rows.rows; ++i) {
    request.indices.push_back(static_cast<std::int32_t>(rows.rows - 1 - i / 2));
    request.seed.push_back(mixed(input.seed, static_cast<std::uint64_t>(i)));
    request.offset.push_back(0);
  }
  const SamplerDescription& sampler = input.sampler->description();
  const WantedResults wanted = reported(sampler, {.logprobs = true});
  if (!wanted.logprobs || is_left_out(input, request, outcome)) return {};
  const Response response = run_request(*input.sampler, request, wanted);
  if (!response.ran()) return response.trouble();
  for (std::size_t at = 0; at < response.tokens.size(); ++at) {
    const std::int64_t row = request.indices[at / 3];
    const RealRow& real = distributions[static_cast<std::size_t>(row)];
    const std::int32_t token = response.tokens[at];
    if (!real.distribution.defined || real.distribution.must_fail || token < 0 ||
        token >= request.vocab)
      continue;
    const std::string wrong = compare_logprobs(request, response, row, at, real, bound, outcome);
    if (!wrong.empty()) {
      return fmt::format("output {} of row {}, sample {}: {}", at / 3, row, at % 3, wrong);
    }
  }
  return {};
}

// Names another quantity that a wrong value equals. The cause of a value that is off by more than
// rounding is not precision.
void name_the_value(const Request& request, const Response& response, std::int64_t row,
                    const RealRow& real, CheckOutcome& outcome) {
  const auto near = [](double value, double other) {
    return std::fabs(value - other) <= 1e-3 * std::max(1.0, std::fabs(other));
  };
  const auto suspect = [&outcome](const char* bug, const char* reason) {
    outcome.evidence.suspects.push_back({fmt::format("log-probabilities: {}", bug), reason});
  };
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const auto& membership = real.distribution.membership;
  if (!response.probs.empty()) {
    const auto probs =
        std::span(response.probs).subspan(static_cast<std::size_t>(row) * vocab, vocab);
    bool right = true, unscaled = true, unfiltered = true;
    for (std::size_t id = 0; id < vocab; ++id) {
      const auto observed = static_cast<double>(probs[id]);
      const bool in = membership[id] == Membership::in;
      right = right && near(observed, in ? real.distribution.probability[id] : 0);
      unscaled = unscaled && near(observed, in ? real.unfiltered[id] : 0);
      unfiltered = unfiltered && near(observed, real.unfiltered[id]);
    }
    if (!right && unscaled) {
      suspect("probabilities are not renormalised over the survivors",
              "the row has the probabilities before the filters, and 0 for dropped tokens");
    }
    if (!right && unfiltered) {
      suspect("probabilities are taken before the filters", "this explains the whole row");
    }
    if (!right) return;
  }
  const std::int32_t token = response.tokens[static_cast<std::size_t>(row)];
  if (response.logprob.empty() || token < 0 || token >= request.vocab) return;
  const auto at = static_cast<std::size_t>(token);
  const auto observed = static_cast<double>(response.logprob[static_cast<std::size_t>(row)]);
  if (near(observed, std::log(real.unfiltered[at]))) return;
  if (near(observed, 0)) {
    suspect("0 for every token, or for some", "0 is reported, the logarithm of a certain token");
  } else if (near(observed, std::log(real.distribution.probability[at]))) {
    suspect("taken after the filters instead of before",
            "the value equals the value after the filters");
  } else {
    suspect("another value is reported", "the error is far larger than rounding");
  }
}

}  // namespace

std::string wrong_probabilities(const CheckInput& input, const Request& request,
                                const Response& response, std::int64_t row,
                                double temperature_error, double logit_error) {
  reference::WeightBound bound = weight_bound(input);
  bound.constant += input.semantics.relative_sum_error;
  RealRow real = real_row(input, request, row, bound);
  real.temperature_error = temperature_error;
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    const double probability = real.distribution.probability[static_cast<std::size_t>(id)];
    if (!(probability > 0)) continue;
    real.mean_distance += probability * distance_over_temperature(request, row, id, real);
    // Penalties and biases make large logits, whose quotient by T is rounded before the largest one
    // is subtracted.
    const double quotient = static_cast<double>(request.row(row)[id]) * real.inverse_ln2 * kLn2;
    real.quotient_error = std::max(real.quotient_error, std::fabs(quotient) * 0x1p-24);
  }
  real.quotient_error += logit_error * real.inverse_ln2 * kLn2;
  return compare_probs(input, request, response, row, real, bound);
}

CheckOutcome check_probabilities(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_probs && !sampler.reports_logprobs) {
    return skipped(lack_of("reports_logprobs"));
  }
  if (input.row_input == RowInput::probabilities) {
    return skipped("draws from probabilities report none");
  }
  reference::WeightBound bound = weight_bound(input);
  bound.constant += input.semantics.relative_sum_error;
  CheckOutcome outcome;
  const std::int64_t chunk =
      std::max<std::int64_t>(1, (std::int64_t{1} << 20) / input.logits->vocab());
  for (std::int64_t first = 0; first < input.rows; first += chunk) {
    const Request request = make_request(input, first, std::min(chunk, input.rows - first));
    if (const Lack lacks = lack_for(sampler, request); !lacks.empty()) {
      return skipped(lacks);
    }
    const Response response =
        run_request(*input.sampler, request, reported(sampler, {.probs = true, .logprobs = true}));
    if (!response.ran()) return outcome.fail(response.trouble());
    std::vector<RealRow> distributions;
    for (std::int64_t row = 0; row < request.rows; ++row) {
      distributions.push_back(real_row(input, request, row, bound));
      const RealRow& real = distributions.back();
      const std::int32_t token = response.tokens[static_cast<std::size_t>(row)];
      if (!real.distribution.defined || real.distribution.must_fail || token < 0 ||
          token >= request.vocab)
        continue;
      ++outcome.rows;
      ++outcome.draws;
      std::string wrong;
      if (!response.probs.empty()) {
        wrong = compare_probs(input, request, response, row, real, bound);
      }
      if (wrong.empty() && !response.logprob.empty()) {
        wrong = compare_logprobs(request, response, row, static_cast<std::size_t>(row), real, bound,
                                 outcome);
      }
      if (wrong.empty()) continue;
      name_the_value(request, response, row, real, outcome);
      return outcome.fail(fmt::format("row {} ({}): {}", first + row,
                                      describe(request.parameters[static_cast<std::size_t>(row)]),
                                      wrong));
    }
    const std::string wrong = compare_samples(input, request, distributions, bound, outcome);
    if (!wrong.empty()) {
      outcome.evidence.suspects.push_back({"log-probabilities: of other samples or outputs",
                                           "one sample per row, in order, is right"});
      return outcome.fail(wrong);
    }
  }
  if (outcome.rows == 0) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  outcome.message = fmt::format("probabilities of {} rows agree", outcome.rows);
  return outcome;
}

}  // namespace fairdraw::harness
