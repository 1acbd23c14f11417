#include "reference/ranked_weights.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/float32_bound.h"
#include "reference/sort_by_key.h"
#include "reference/tile_bound.h"

namespace fairdraw::reference {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;

// A long double sum of probabilities is exact if the sum is below 2^63 times the last bit of the
// addends.
static_assert(LDBL_MANT_DIG >= 64, "the oracle sums in a long double of at least 64 bits");

constexpr double kLog2E = 0x1.71547652b82fep0;
constexpr double kHalfUlp = 0x1p-24;  // largest relative error of one float32 rounding

// Returns bits that, read as an integer, grow as the value decreases. The bits of positive floats,
// read as integers, grow with the value, and those of negative floats decrease.
std::uint32_t falling_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);  // -0 is 0
  return bits < 0x80000000U ? 0x7fffffffU - bits : bits;
}

// Sorts tokens by decreasing value, and equal values by id. All keys are different, and a stable
// sort is faster for integers than for floats.
void rank(RankedWeights& row) {
  std::vector<std::uint64_t> order(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    order[i] = (static_cast<std::uint64_t>(falling_bits(row.value[i])) << 32) | i;
  }
  sort_by_key(order);
  const std::vector<float> value = std::move(row.value);
  const std::vector<std::int32_t> id = std::move(row.id);
  row.value.clear();
  row.id.clear();
  for (const std::uint64_t entry : order) {
    row.value.push_back(value[entry & 0xffffffffU]);
    row.id.push_back(id[entry & 0xffffffffU]);
  }
}

void add_up(RankedWeights& row, const ArrayXd& error) {
  row.mass.assign(row.size() + 1, 0);
  row.mass_error.assign(row.size() + 1, 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row.mass[i + 1] = row.mass[i] + row.weight_at(i);
    row.mass_error[i + 1] = row.mass_error[i] + error[static_cast<Index>(i)];
  }
}

// Bounds the error of the oracle's own sums: each of the n additions rounds by at most half an ulp
// of the total.
double own_sum_error(std::size_t n) { return static_cast<double>(n) * 0x1p-64; }

// Bounds the error of a sampler's sums over a row of n tokens, relative to the row's sum.
double sampler_sum_error(const Semantics& semantics, std::size_t n) {
  double error = semantics.relative_sum_error;
  if (semantics.sequential_sums) error += sum_error({.additions = sequential_additions(n)});
  return error;
}

// Returns the value of the last bit that is set in a float's significand.
double last_bit_of(double value) {
  int exponent = 0;
  const auto significand =
      static_cast<std::uint64_t>(std::ldexp(std::frexp(value, &exponent), DBL_MANT_DIG));
  return std::ldexp(1.0, exponent - DBL_MANT_DIG + std::countr_zero(significand));
}

// Returns exp(e) - 1, the relative error of a weight whose logarithm is off by e. The error is
// capped, because an infinite error times a weight that underflowed to 0 would be NaN.
ArrayXd relative_error(const ArrayXd& log_error) {
  return log_error.min(600.0).unaryExpr([](double e) { return std::expm1(e); });
}

}  // namespace

double WeightBound::at(double octaves) const {
  const double distance = std::abs(octaves);
  return constant + per_octave * distance + (truncation ? unit * std::exp2(distance) : 0.0);
}

bool RankedWeights::may_tie(std::size_t i, std::size_t j) const {
  if (value[i] == value[j]) return true;
  const double error = tie_error[static_cast<Index>(i)] + tie_error[static_cast<Index>(j)];
  if (error == 0) return false;
  const double low = std::min(weight_at(i), weight_at(j));
  const double high = std::max(weight_at(i), weight_at(j));
  return high <= low * (1 + error);
}

RankedWeights rank_logits(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                          double temperature, double min_p, const Semantics& semantics,
                          const WeightBound& bound) {
  RankedWeights row;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const bool is_allowed = allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
    if (is_allowed && logits[id] != -std::numeric_limits<float>::infinity()) {
      row.id.push_back(static_cast<std::int32_t>(id));
      row.value.push_back(logits[id]);
    }
  }
  rank(row);
  if (row.size() == 0) return row;

  const auto n = static_cast<Index>(row.size());
  const ArrayXd x = Eigen::Map<const Eigen::ArrayXf>(row.value.data(), n).cast<double>();
  const ArrayXd nats = (x - x[0]) / temperature;
  const ArrayXd octaves = nats.abs() * kLog2E;  // distance to the maximum in octaves
  row.weight = nats.exp();

  // This error is for samplers that divide logits by T and round before they subtract the maximum:
  // the code allows one rounding of 1 / T, one of each product and one of the difference, each
  // relative to the scaled logits.
  ArrayXd scaling = ArrayXd::Zero(n);
  if (semantics.rounds_scaled_logits) {
    scaling = (x.abs() + std::abs(x[0])) * (3 * kHalfUlp / temperature);
  }
  // This is the rounding error of the oracle's own float64 arithmetic: half an ulp of the argument
  // each for difference, quotient and exponential, and two ulps of the result.
  const ArrayXd own = (nats.abs() + 4) * 0x1p-51;

  const ArrayXd log_error =
      semantics.relative_weight_error + bound.constant + bound.per_octave * octaves + scaling + own;
  // Truncation lowers a weight by less than one unit.
  const double unit = bound.truncation ? bound.unit : static_cast<double>(FLT_MIN);
  add_up(row, row.weight * relative_error(log_error) + unit);
  row.sampler_slack = sampler_sum_error(semantics, row.size());
  row.own_slack = own_sum_error(row.size());

  row.tie_error = ArrayXd::Zero(n);
  if (semantics.rounds_scaled_logits) {
    row.tie_error =
        relative_error(semantics.relative_weight_error + bound.per_octave * octaves + scaling);
  }

  // The filter min_p compares distances in octaves, because weights close to 1 all become 1 in
  // float64. The distance that a sampler computes, fairdraw included, is off by three roundings
  // (float32 difference, factor, product), by an ulp of the subnormals, and by the error of
  // scaling. A sampler's threshold for min_p is off by at most 0.5001 ulp, which is below 1.0002 *
  // 2^-24 of the threshold. A sampler that compares probabilities uses two weights and a product,
  // so their errors add up.
  const double threshold = -std::log2(min_p);
  const bool equality_stays = semantics.min_p_boundary == MinPBoundary::at_least;
  for (Index i = 0; i < n; ++i) {
    const double distance = octaves[i];
    const double band = distance * (bound.min_p_distance + 0x1p-50) +
                        threshold * 1.0002 * kHalfUlp + static_cast<double>(FLT_TRUE_MIN) +
                        (2 * semantics.relative_weight_error + scaling[i]) * kLog2E;
    const bool is_maximum = row.value[static_cast<std::size_t>(i)] == row.value[0];
    if (is_maximum || threshold - distance > band) ++row.min_p.certain;
    if (is_maximum || threshold > distance || (equality_stays && threshold == distance)) {
      ++row.min_p.exact;
    }
    if (is_maximum || distance - threshold <= band) ++row.min_p.possible;
  }
  return row;
}

RankedWeights rank_probs(std::span<const float> probs, double min_p, const Semantics& semantics,
                         bool truncation) {
  RankedWeights row;
  for (std::size_t id = 0; id < probs.size(); ++id) {
    if (probs[id] > 0) {
      row.id.push_back(static_cast<std::int32_t>(id));
      row.value.push_back(probs[id]);
    }
  }
  rank(row);
  if (row.size() == 0) return row;

  const auto n = static_cast<Index>(row.size());
  const double largest = row.value[0];
  row.weight = ArrayXd(n);
  row.tie_error = ArrayXd::Zero(n);
  ArrayXd error = ArrayXd::Zero(n);
  double last_bit = largest;  // of any probability
  const double slack = semantics.relative_weight_error;
  const bool equality_stays = semantics.min_p_boundary == MinPBoundary::at_least;
  for (Index i = 0; i < n; ++i) {
    const double probability = row.value[static_cast<std::size_t>(i)];
    row.weight[i] = probability;
    const double lost = truncation ? tile_prob_error(std::log2(largest / probability)) : 0.0;
    error[i] = (slack + lost) * probability;
    last_bit = std::min(last_bit, last_bit_of(probability));
    // The product of two float32 values is exact in float64, while a sampler with float32 errors
    // may round the product.
    const double least = min_p * largest;
    const auto stays = [&](double value) {
      return i == 0 || value > least || (equality_stays && value == least);
    };
    if (stays(probability * (1 - slack))) ++row.min_p.certain;
    if (stays(probability)) ++row.min_p.exact;
    if (stays(probability * (1 + slack))) ++row.min_p.possible;
  }
  add_up(row, error);
  const bool sums_are_exact = row.mass.back() < static_cast<long double>(last_bit) * 0x1p63L;
  row.sampler_slack = sampler_sum_error(semantics, row.size());
  row.own_slack = sums_are_exact ? 0.0 : own_sum_error(row.size());
  return row;
}

}  // namespace fairdraw::reference
