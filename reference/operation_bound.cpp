#include "reference/operation_bound.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "reference/float32_bound.h"
#include "reference/tile_bound.h"

namespace fairdraw::reference {
namespace {

constexpr double kHalfUlp = 0x1p-24;  // u
constexpr double kLog2E = 0x1.71547652b82fep0;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Half a unit in the last place of a dtype: relative for normal values, absolute for subnormals.
struct Rounding {
  double relative = 0, absolute = 0;
};

Rounding rounding_of(DType dtype) {
  constexpr auto kFlushed = static_cast<double>(FLT_MIN);
  switch (dtype) {
    case DType::float16:  // converted from float32, so the value is rounded twice
      return {0x1p-11 + kHalfUlp, 0x1p-25 + kFlushed};
    case DType::bfloat16:
      return {0x1p-8 + kHalfUlp, kFlushed};
    case DType::float32:
      break;
  }
  return {kHalfUlp, kFlushed};
}

// Bounds on the weights of a row (0 for tokens without a weight), and the errors of two passes that
// compute weights from the same scaled logits.
struct Weights {
  std::vector<long double> low, high;
  std::vector<double> repeated;  // relative
  std::vector<double> nats;      // z_i; -inf
};

double sum_error_of(const Semantics& semantics, std::size_t n) {
  double error = semantics.relative_sum_error;
  if (semantics.sequential_sums) error += sum_error({.additions = sequential_additions(n)});
  return error;
}

Weights logit_weights(std::span<const float> logits, double temperature, const Semantics& semantics,
                      const WeightBound& bound) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  const double flushed = bound.truncation ? bound.unit : static_cast<double>(FLT_MIN);
  const double of_weight = semantics.relative_weight_error + bound.constant;
  Weights weights;
  for (const float logit : logits) {
    const auto x = static_cast<double>(logit);
    if (x == -kInfinity) {
      weights.low.push_back(0);
      weights.high.push_back(0);
      weights.repeated.push_back(0);
      weights.nats.push_back(-kInfinity);
      continue;
    }
    const double nats = (x - largest) / temperature;
    double distance = bound.per_octave * std::abs(nats) * kLog2E;
    const double repeated = 2 * (of_weight + distance);
    if (semantics.rounds_scaled_logits) {
      distance += 3 * kHalfUlp * (std::abs(x) + std::abs(largest)) / temperature;
    }
    // The oracle's own float64 arithmetic rounds one difference and one quotient.
    distance += 0x1p-51 * std::abs(nats);
    if (x == largest) distance = 0;
    const long double least = std::exp(static_cast<long double>(nats) - distance);
    const long double most = std::exp(std::min(0.0L, static_cast<long double>(nats) + distance));
    weights.low.push_back(std::max(0.0L, least / (1 + of_weight) - flushed));
    weights.high.push_back(most * (1 + of_weight));
    weights.repeated.push_back(repeated);
    weights.nats.push_back(nats);
  }
  return weights;
}

ResultIntervals quotients(const Weights& weights, double sum_error, DType dtype) {
  const std::size_t vocab = weights.low.size();
  const Rounding rounding = rounding_of(dtype);
  long double all_low = 0, all_high = 0;
  for (std::size_t id = 0; id < vocab; ++id) {
    all_low += weights.low[id];
    all_high += weights.high[id];
  }
  ResultIntervals result;
  double repeated = 0, tokens = 0;
  for (std::size_t id = 0; id < vocab; ++id) {
    const long double low = weights.low[id], high = weights.high[id];
    if (high == 0) {
      result.low.push_back(0);
      result.high.push_back(0);
      continue;
    }
    const auto least = static_cast<double>(low / (low + (all_high - high)));
    const auto most = static_cast<double>(high / (high + std::max(0.0L, all_low - low)));
    const double value_low =
        (low == 0 ? 0 : least) / (1 + sum_error) * (1 - rounding.relative) - rounding.absolute;
    const double value_high = most / (1 - sum_error) * (1 + rounding.relative) + rounding.absolute;
    result.low.push_back(std::max(0.0, value_low));
    result.high.push_back(value_high);
    repeated += most * std::expm1(std::min(weights.repeated[id], 600.0));
    ++tokens;
  }
  result.row_sum =
      (1 + repeated) / (1 - sum_error) * (1 + rounding.relative) - 1 + tokens * rounding.absolute;
  return result;
}

}  // namespace

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.fep127;
    case DType::float32:
      break;
  }
  return static_cast<double>(FLT_MAX);
}

ResultIntervals softmax_intervals(std::span<const float> logits, double temperature,
                                  const Semantics& semantics, const WeightBound& bound,
                                  DType result) {
  return quotients(logit_weights(logits, temperature, semantics, bound),
                   sum_error_of(semantics, logits.size()), result);
}

ResultIntervals log_softmax_intervals(std::span<const float> logits, const Semantics& semantics,
                                      const WeightBound& bound, DType result) {
  const Weights weights = logit_weights(logits, 1, semantics, bound);
  const double sum_error = sum_error_of(semantics, logits.size());
  const double rounding = rounding_of(result).relative;
  long double low = 0, high = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    low += weights.low[id];
    high += weights.high[id];
  }
  // The largest weight is 1, so a sum is never below 1.
  const auto log_low = static_cast<double>(std::log(std::max(1.0L, low * (1 - sum_error))));
  const auto log_high = static_cast<double>(std::log(high * (1 + sum_error)));
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  const double shifted = semantics.rounds_scaled_logits ? 2 * kHalfUlp * std::abs(largest) : 0;
  const double absolute = rounding_of(result).absolute + shifted;
  ResultIntervals intervals;
  for (const double nats : weights.nats) {
    if (nats == -kInfinity) {
      intervals.low.push_back(-kInfinity);
      intervals.high.push_back(-kInfinity);
      continue;
    }
    const double least = nats * (1 + kHalfUlp) - log_high * (1 + 3 * kHalfUlp);
    const double most = nats * (1 - kHalfUlp) - log_low * (1 - 3 * kHalfUlp);
    // The low and the high bound of a log-probability are both at most 0.
    intervals.low.push_back(least * (1 + rounding + kHalfUlp) - absolute);
    intervals.high.push_back(most * (1 - rounding - kHalfUlp) + absolute);
  }
  return intervals;
}

ResultIntervals renorm_intervals(std::span<const float> probs, std::span<const std::uint8_t> kept,
                                 const Semantics& semantics, bool truncation, DType result) {
  const auto largest = static_cast<double>(*std::max_element(probs.begin(), probs.end()));
  Weights weights;
  for (std::size_t id = 0; id < probs.size(); ++id) {
    const bool counts = kept[id] != 0 && probs[id] > 0;
    const auto value = static_cast<long double>(counts ? probs[id] : 0.0F);
    const double lost =
        truncation && counts
            ? std::min(1.0, tile_prob_error(std::log2(largest / static_cast<double>(probs[id]))))
            : 0;
    // A sampler that flushes subnormals reads a subnormal probability as 0.
    const bool flushed = !truncation && value < static_cast<long double>(FLT_MIN);
    const double error = semantics.relative_weight_error;
    weights.low.push_back(flushed ? 0 : value * (1 - lost) / (1 + error));
    weights.high.push_back(value * (1 + error));
    weights.repeated.push_back(2 * error + 2 * lost);
    weights.nats.push_back(0);
  }
  return quotients(weights, sum_error_of(semantics, probs.size()), result);
}

}  // namespace fairdraw::reference
