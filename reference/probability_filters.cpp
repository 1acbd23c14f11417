// The integer model sorts the tokens of a row by their offset from the mean logit, where the
// kernels search for a radius by digits. The judgement computes entropies and probabilities as
// their definitions say, with logarithms, where the integers have a mean logit.
#include "reference/probability_filters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

namespace fairdraw::reference {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr double kLargestOffset = std::numeric_limits<float>::max();

// --- Integers ----------------------------------------------------------------------------------

struct FilterToken {
  std::size_t id = 0;
  double distance = 0;
  RowWeight weight = 0;
  double uncut_weight = 0;
};

struct FilterRow {
  std::vector<FilterToken> tokens;
  RowWeight total = 0, squares = 0, distances = 0;
  double largest = 0;  ///< weight of the largest logit

  double mean() const {
    return std::ldexp(to_nearest_double(distances) / to_nearest_double(total), -32);
  }
};

RowWeight weighted_distance(const FilterToken& token) {
  if (token.weight == 0) return 0;
  return token.weight * static_cast<RowWeight>(std::floor(std::ldexp(token.distance, 32)));
}

FilterRow weighed(const std::vector<float>& logits, float temperature) {
  const float scale = octaves_per_logit(temperature);
  const float largest = *std::ranges::max_element(logits);
  const double octave = octaves_of_logit(largest, scale).whole;
  FilterRow row;
  row.largest = std::ldexp(octaves_of_logit(largest, scale).significand, 32);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == kBanned) continue;
    const TokenOctaves octaves = octaves_of_logit(logits[id], scale);
    const double below = octave - octaves.whole;
    const double significand = octaves.significand;
    FilterToken token;
    token.id = id;
    token.distance = (static_cast<double>(largest) - static_cast<double>(logits[id])) / temperature;
    if (below < 256) {
      const int s = static_cast<int>(below);
      token.uncut_weight = std::ldexp(significand, 32 - s);
      token.weight = s < 64 ? static_cast<RowWeight>(std::floor(token.uncut_weight)) : 0;
      // The square of a significand has 48 bits, so that it is exact.
      row.squares +=
          static_cast<RowWeight>(std::floor(std::ldexp(significand * significand, 56 - 2 * s)));
    }
    row.total += token.weight;
    row.distances += weighted_distance(token);
    row.tokens.push_back(token);
  }
  return row;
}

float offset_of(const FilterToken& token, double center) {
  return static_cast<float>(std::min(std::abs(token.distance - center), kLargestOffset));
}

/// Returns max(1, ceil(share * total)) for a share in [0, 1].
RowWeight mass_of(float share, RowWeight total) {
  int exponent = 0;
  const auto digits = static_cast<RowWeight>(std::ldexp(std::frexp(share, &exponent), 24));
  const int shift = 24 - exponent;  // share = digits 2^-shift
  const RowWeight product = digits * total;
  if (product == 0 || shift >= 128) return 1;
  return (product + ((RowWeight{1} << shift) - 1)) >> shift;
}

float radius_of(const FilterRow& row, double center, float typical_p) {
  std::vector<std::pair<float, RowWeight>> nearest;
  for (const FilterToken& token : row.tokens) {
    nearest.emplace_back(offset_of(token, center), token.weight);
  }
  std::ranges::sort(nearest);
  RowWeight mass = 0;
  for (const auto& [offset, weight] : nearest) {
    mass += weight;
    if (mass >= mass_of(typical_p, row.total)) return offset;
  }
  throw std::logic_error("the tokens of a row do not have its mass");
}

template <class Keeps>
void keep_if(std::vector<float>& logits, const FilterRow& row, const Keeps& keeps) {
  for (const FilterToken& token : row.tokens) {
    if (!keeps(token)) logits[token.id] = kBanned;
  }
}

/// Returns ln x for x >= 1, from 13 terms of the series of atanh, in double, as the definition has
/// it.
double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // in [1/2, 1)
  if (m <= std::sqrt(0.5)) {
    m = 2 * m;
    exponent -= 1;
  }
  const double s = (m - 1) / (m + 1);
  double series = 1.0 / 25;
  for (const double k : {23., 21., 19., 17., 15., 13., 11., 9., 7., 5., 3., 1.}) {
    series = series * (s * s) + 1 / k;
  }
  return exponent * std::log(2.0) + 2 * s * series;
}

/// Returns exp(-x) for x >= 0, from 14 terms of its series, in double, as the definition has it.
double exponential_of_minus(double x) {
  if (x >= 700) return 0;
  const double octaves = std::floor(x / std::log(2.0) + 0.5);
  const double rest = x - octaves * std::log(2.0);
  double series = 1;
  for (const double k : {13., 12., 11., 10., 9., 8., 7., 6., 5., 4., 3., 2., 1.}) {
    series = 1 - rest / k * series;
  }
  return std::ldexp(series, -static_cast<int>(octaves));
}

double entropy_of(RowWeight total, RowWeight distances, double largest) {
  return std::ldexp(to_nearest_double(distances) / to_nearest_double(total), -32) +
         logarithm(to_nearest_double(total) / largest);
}

/// Drops the farthest tokens until the entropy of the others is at most top_h of that of the row.
/// The first tokens that go beyond it are looked for by the digits of their distance, as the
/// definition says, because sums that hardly grow are not in order after rounding.
void keep_top_h(std::vector<float>& logits, const FilterRow& row, float top_h) {
  const double most = top_h * entropy_of(row.total, row.distances, row.largest);
  using Digits = std::map<std::uint32_t, std::vector<FilterToken>>;
  const auto by_digit = [](const std::vector<FilterToken>& tokens, int digit) {
    Digits digits;
    for (const FilterToken& token : tokens) {
      const auto bits = std::bit_cast<std::uint32_t>(offset_of(token, 0));
      digits[bits >> (8 * digit)].push_back(token);
    }
    return digits;
  };
  std::vector<FilterToken> left = row.tokens;
  RowWeight total = 0, distances = 0;
  bool found = true;
  for (int digit = 3; digit >= 0 && found; --digit) {
    found = false;
    for (auto& [number, tokens] : by_digit(left, digit)) {
      RowWeight next_total = total, next_distances = distances;
      for (const FilterToken& token : tokens) {
        next_total += token.weight;
        next_distances += weighted_distance(token);
      }
      if (next_total != 0 && entropy_of(next_total, next_distances, row.largest) > most) {
        left = tokens;
        found = true;
        break;
      }
      total = next_total;
      distances = next_distances;
    }
  }
  if (!found) return;
  const float first_dropped = offset_of(left.front(), 0);
  keep_if(logits, row, [&](const FilterToken& token) {
    return token.distance == 0 || offset_of(token, 0) < first_dropped;
  });
}

/// Returns the second word of Philox4x32-10 (Salmon et al. 2011).
std::uint32_t second_word(std::array<std::uint32_t, 4> counter, std::uint64_t seed) {
  auto low_key = static_cast<std::uint32_t>(seed);
  auto high_key = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t third = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(third >> 32) ^ counter[1] ^ low_key,
               static_cast<std::uint32_t>(third),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ high_key,
               static_cast<std::uint32_t>(first)};
    low_key += 0x9E3779B9U;
    high_key += 0xBB67AE85U;
  }
  return counter[1];
}

/// Returns whether the coin of xtc excludes tokens in this step: its word is that of the length of
/// the output, of the purpose, and of the seed.
bool xtc_applies(const RowProcessing& row) {
  if (row.xtc_probability == 0) return false;
  const std::uint32_t word =
      second_word({static_cast<std::uint32_t>(row.output_length), row.output_length < 0 ? ~0U : 0U,
                   static_cast<std::uint32_t>(Purpose::exclude), 0},
                  row.xtc_seed);
  return std::ldexp(static_cast<double>(word), -32) < row.xtc_probability;
}

/// Drops the tokens that are more probable than the least probable one that reaches the threshold.
void exclude_top_choices(std::vector<float>& logits, const FilterRow& row, float threshold) {
  const double weight = threshold * to_nearest_double(row.total);
  double least = 0;  // distance of the least probable token
  for (const FilterToken& token : row.tokens) {
    const bool reaches = token.uncut_weight >= weight - std::ldexp(weight, -50);
    if (reaches) least = std::max(least, token.distance);
  }
  keep_if(logits, row, [least](const FilterToken& token) { return token.distance >= least; });
}

/// Keeps the tokens of at least a weight, and those at most `farthest` below the largest logit.
void keep_heavy(std::vector<float>& logits, const FilterRow& row, double weight, float farthest) {
  const double threshold = weight - std::ldexp(weight, -50);
  keep_if(logits, row, [&](const FilterToken& token) {
    return token.uncut_weight >= threshold || offset_of(token, 0) <= farthest;
  });
}

/// Keeps the largest logits, with their ties, until their amounts sum to what is wanted.
template <class Amount>
void keep_largest(std::vector<float>& logits, const FilterRow& row, RowWeight wanted,
                  const Amount& amount) {
  std::map<float, RowWeight, std::greater<>> amounts;  // by logit; both zeros are one key
  for (const FilterToken& token : row.tokens) amounts[logits[token.id]] += amount(token);
  RowWeight sum = 0;
  for (const auto& [logit, of_logit] : amounts) {
    sum += of_logit;
    if (sum < wanted) continue;
    const float least = logit;
    return keep_if(logits, row,
                   [&](const FilterToken& token) { return logits[token.id] >= least; });
  }
}

/// Gives each token the logit of adaptive_p, which is largest at the target.
void prefer_near(std::vector<float>& logits, const FilterRow& row, double target) {
  for (const FilterToken& token : row.tokens) {
    const double p = to_nearest_double(token.weight) / to_nearest_double(row.total);
    const double distance = std::abs(p - target) / 0.3;
    const double loss = 10 * distance * distance / (1 + distance);
    logits[token.id] = static_cast<float>(5 - loss);
  }
}

// --- Real numbers --------------------------------------------------------------------------------

struct RealToken {
  std::size_t id = 0;
  float logit = 0;
  long double distance = 0;  ///< to the largest logit
  long double probability = 0;
  long double surprise = 0;  ///< -ln p
};

struct RealRow {
  std::vector<RealToken> tokens;
  long double entropy = 0, collision = 0;
  long double mean = 0;          ///< mean of the distances
  long double error = 0;         ///< mean of the errors of the weights
  long double offset_error = 0;  ///< error of the mean logit
};

RealRow in_real_numbers(const std::vector<float>& logits, float temperature,
                        const FilterBound& bound) {
  const long double largest = *std::ranges::max_element(logits);
  long double total = 0;
  RealRow row;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == kBanned) continue;
    const long double distance = (largest - logits[id]) / temperature;
    row.tokens.push_back({id, logits[id], distance, std::exp(-distance), 0});
    total += row.tokens.back().probability;
  }
  const auto error_of = [&](const RealToken& token) {
    return bound.constant + bound.per_logit * token.distance;
  };
  for (RealToken& token : row.tokens) {
    token.surprise = token.distance + std::log(total);
    token.probability /= total;
    row.entropy += token.probability * token.surprise;
    row.collision += token.probability * token.probability;
    row.mean += token.probability * token.distance;
    row.error += token.probability * error_of(token);
  }
  for (const RealToken& token : row.tokens) {
    row.offset_error +=
        token.probability * (error_of(token) + row.error) * std::abs(token.surprise - row.entropy);
  }
  return row;
}

Membership compared(long double value, long double threshold, long double error) {
  if (std::abs(value - threshold) <= error) return Membership::ambiguous;
  return value > threshold ? Membership::in : Membership::out;
}

/// Returns the membership of a token that stays if either condition holds.
Membership either(Membership a, Membership b) {
  if (a == Membership::in || b == Membership::in) return Membership::in;
  return a == Membership::out && b == Membership::out ? Membership::out : Membership::ambiguous;
}

Membership above(const RealToken& token, long double threshold, long double row_error,
                 const FilterBound& bound) {
  if (token.distance == 0) return Membership::in;
  const long double error = bound.constant + bound.per_logit * token.distance + row_error;
  return compared(token.probability, threshold, threshold * error);
}

/// Returns the error of an entropy that is computed from weights. The weights' errors move the mean
/// of the distances, and the logarithm of the sum in units of the largest weight; distances have
/// steps of 2^-32, and weights at least those of 2^-55 of the largest one, at most 2^6 away from
/// it.
long double entropy_error(const RealRow& row, const FilterBound& bound) {
  long double error = row.offset_error, others = 0;
  for (const RealToken& token : row.tokens) {
    if (token.distance == 0) continue;
    others += token.probability;
    error += token.probability * (2 * bound.constant + bound.per_logit * token.distance);
  }
  return error + others * 0x1p-32L + static_cast<long double>(row.tokens.size()) * 0x1p-49L;
}

/// Judges top_h: a token stays if the tokens with at least its logit have an entropy of at most
/// `share` times that of the row.
Membership within_entropy(const std::vector<float>& logits, const RealRow& row,
                          const RealToken& token, long double share, float temperature,
                          const FilterBound& bound) {
  if (token.distance == 0) return Membership::in;
  std::vector<float> nearer = logits;
  for (float& logit : nearer) {
    if (logit < token.logit) logit = kBanned;
  }
  const RealRow near = in_real_numbers(nearer, temperature, bound);
  return compared(share * row.entropy, near.entropy,
                  entropy_error(near, bound) + share * entropy_error(row, bound));
}

/// Judges top_k and top_p of a chain: a token stays if fewer than k tokens, or less mass than
/// top_p, have larger logits.
Membership among_the_largest(const RealRow& row, const RealToken& token,
                             const RowProcessing& processing, FilterStep step) {
  long double tokens = 0, mass = 0;
  for (const RealToken& other : row.tokens) {
    if (other.logit <= token.logit) continue;
    tokens += 1;
    mass += other.probability;
  }
  if (tokens == 0) return Membership::in;
  if (step == FilterStep::top_k) {
    return tokens < processing.chain_top_k ? Membership::in : Membership::out;
  }
  return compared(processing.chain_top_p, mass, 2 * row.error + 0x1p-50L);
}

/// Judges xtc, whose coin excludes: a token stays if no less probable token reaches the threshold.
void exclude(const RealRow& row, std::vector<Membership>& memberships, long double threshold,
             const FilterBound& bound) {
  long double surely = 0, maybe = 0;  // distance of the least probable token that reaches it
  for (const RealToken& token : row.tokens) {
    const Membership reaches = above(token, threshold, row.error, bound);
    if (reaches == Membership::in) surely = std::max(surely, token.distance);
    if (reaches != Membership::out) maybe = std::max(maybe, token.distance);
  }
  for (const RealToken& token : row.tokens) {
    Membership& membership = memberships[token.id];
    if (token.distance < maybe) membership = Membership::ambiguous;
    if (token.distance < surely) membership = Membership::out;
  }
}

/// Judges typical_p: a token stays if the mass that is nearer to the entropy is below `share`.
Membership typical(const RealRow& row, const RealToken& token, long double share,
                   const FilterBound& bound) {
  const auto offset = [&](const RealToken& of) { return std::abs(of.surprise - row.entropy); };
  const long double near = 2 * row.offset_error + bound.offset * offset(token) + bound.step;
  long double nearer = 0, maybe_nearer = 0;
  for (const RealToken& other : row.tokens) {
    if (other.logit == token.logit || offset(other) > offset(token) + near) continue;
    maybe_nearer += other.probability;
    if (offset(other) < offset(token) - near) nearer += other.probability;
  }
  const long double error = 2 * row.error + 0x1p-50L;
  // The nearest token stays, whatever the share is.
  if (maybe_nearer == 0 || maybe_nearer < share - error) return Membership::in;
  if (nearer > 0 && nearer >= share + error) return Membership::out;
  return Membership::ambiguous;
}

/// Returns whether a step of a row may ban tokens or change their logits.
bool is_on(const RowProcessing& row, FilterStep step) {
  switch (step) {
    case FilterStep::top_n_sigma:
      return row.top_n_sigma > 0 && std::isfinite(row.top_n_sigma);
    case FilterStep::typical_p:
      return row.typical_p != 1;
    case FilterStep::epsilon_cutoff:
      return row.epsilon_cutoff != 0;
    case FilterStep::eta_cutoff:
      return row.eta_cutoff != 0;
    case FilterStep::p_less:
      return row.p_less != 0;
    case FilterStep::top_h:
      return row.top_h != 1;
    case FilterStep::xtc:
      return row.xtc_probability != 0;
    case FilterStep::temperature:
      return false;  // it bans nothing
    case FilterStep::top_k:
      return row.chain_top_k > 0;
    case FilterStep::top_p:
      return row.chain_top_p != 1;
    case FilterStep::min_p:
      return row.chain_min_p != 0;
    case FilterStep::adaptive_p:
      return row.adaptive_target >= 0;
  }
  throw std::invalid_argument("no step of a chain");
}

}  // namespace

std::vector<FilterStep> filter_steps(const RowProcessing& row) {
  if (row.filter_chain == 0) {
    return {FilterStep::top_n_sigma, FilterStep::typical_p, FilterStep::epsilon_cutoff,
            FilterStep::eta_cutoff,  FilterStep::p_less,    FilterStep::top_h,
            FilterStep::xtc};
  }
  std::vector<FilterStep> steps;
  for (std::uint64_t left = row.filter_chain; left != 0; left /= 16) {
    const bool is_last = left < 16;
    if (left % 16 == 0 || left % 16 > (is_last ? 12 : 11)) return {};
    steps.push_back(static_cast<FilterStep>(left % 16));
  }
  return steps;
}

void apply_step(std::vector<float>& logits, const RowProcessing& row, FilterStep step,
                float temperature) {
  if (!is_on(row, step)) return;
  const FilterRow left = weighed(logits, temperature);
  switch (step) {
    case FilterStep::typical_p: {
      const double center = left.mean();
      const float radius = radius_of(left, center, row.typical_p);
      return keep_if(logits, left,
                     [&](const FilterToken& token) { return offset_of(token, center) <= radius; });
    }
    case FilterStep::epsilon_cutoff:
      return keep_heavy(logits, left, row.epsilon_cutoff * to_nearest_double(left.total), 0);
    case FilterStep::eta_cutoff: {
      const double half_of_ln2 = std::ldexp(0x1.62e42fefa39efp-1, -1);
      const double half_of_log = min_p_threshold(row.eta_cutoff) * half_of_ln2;
      return keep_heavy(logits, left, row.eta_cutoff * to_nearest_double(left.total),
                        static_cast<float>(left.mean() - half_of_log));
    }
    case FilterStep::p_less: {
      const double weight = to_nearest_double(left.squares) / to_nearest_double(left.total);
      return keep_heavy(logits, left, std::ldexp(weight, 8), 0);
    }
    case FilterStep::top_h:
      return keep_top_h(logits, left, row.top_h);
    case FilterStep::xtc:
      if (xtc_applies(row)) exclude_top_choices(logits, left, row.xtc_threshold);
      return;
    case FilterStep::top_k:
      return keep_largest(logits, left, static_cast<RowWeight>(row.chain_top_k),
                          [](const FilterToken&) { return RowWeight{1}; });
    case FilterStep::top_p:
      return keep_largest(logits, left, mass_of(row.chain_top_p, left.total),
                          [](const FilterToken& token) { return token.weight; });
    case FilterStep::min_p:
      return keep_heavy(logits, left, row.chain_min_p * left.largest, 0);
    case FilterStep::adaptive_p:
      return prefer_near(logits, left, row.adaptive_target);
    case FilterStep::top_n_sigma:
    case FilterStep::temperature:
      return;
  }
}

float dynamic_temperature(const std::vector<float>& processed, const RowProcessing& row,
                          float temperature) {
  constexpr float kSmallest = 0x1p-126F, kLargest = 0x1p64F;
  const bool is_good = temperature >= kSmallest && temperature <= kLargest &&
                       row.dynatemp_range > 0 && row.dynatemp_range <= kLargest &&
                       row.dynatemp_exponent >= 0 && row.dynatemp_exponent <= kLargest;
  const auto tokens = static_cast<double>(processed.size()) -
                      static_cast<double>(std::ranges::count(processed, kBanned));
  if (!is_good || tokens == 0) return temperature;
  double share = 1;
  if (tokens > 1) {
    const FilterRow left = weighed(processed, 1);
    share = entropy_of(left.total, left.distances, left.largest) / logarithm(tokens);
    share = std::clamp(share, 0.0, 1.0);
  }
  double power = share;
  if (share == 0) {
    power = row.dynatemp_exponent == 0 ? 1 : 0;
  } else if (row.dynatemp_exponent != 1) {
    power = exponential_of_minus(row.dynatemp_exponent * logarithm(1 / share));
  }
  const double center = temperature, range = row.dynatemp_range;
  const double low = std::max(center - range, 0.0);
  const double now = low + (center + range - low) * power;
  return std::clamp(static_cast<float>(now), kSmallest, kLargest);
}

std::vector<Membership> judge_filter(const std::vector<float>& logits, const RowProcessing& row,
                                     const FilterBound& bound) {
  std::optional<FilterStep> filter;
  float temperature = 1;
  for (const FilterStep step : filter_steps(row)) {
    if (step == FilterStep::temperature && !filter) temperature = row.chain_temperature;
    if (!is_on(row, step)) continue;
    if (filter) throw std::invalid_argument("more than one filter by probability is on");
    filter = step;
  }
  const RealRow real = in_real_numbers(logits, temperature, bound);
  std::vector<Membership> memberships(logits.size(), Membership::out);
  for (const RealToken& token : real.tokens) {
    Membership& membership = memberships[token.id];
    membership = Membership::in;
    if (filter == FilterStep::typical_p) membership = typical(real, token, row.typical_p, bound);
    if (filter == FilterStep::epsilon_cutoff) {
      membership = above(token, row.epsilon_cutoff, real.error, bound);
    }
    if (filter == FilterStep::eta_cutoff) {
      const long double eta = row.eta_cutoff, log = std::log(eta);
      // p >= sqrt(eta) exp(-H), in logarithms
      const long double error = real.offset_error + 0x1p-22L * (1 + real.mean - log);
      membership = either(above(token, eta, real.error, bound),
                          compared(-token.surprise, log / 2 - real.entropy, error));
    }
    if (filter == FilterStep::p_less) {
      membership = above(token, real.collision, 3 * real.error, bound);
    }
    if (filter == FilterStep::top_h) {
      membership = within_entropy(logits, real, token, row.top_h, temperature, bound);
    }
    if (filter == FilterStep::top_k || filter == FilterStep::top_p) {
      membership = among_the_largest(real, token, row, *filter);
    }
    if (filter == FilterStep::min_p) {
      // The largest weight has the error of a weight, too.
      const long double least = std::log(static_cast<long double>(row.chain_min_p));
      const long double error = 2 * bound.constant + bound.per_logit * token.distance;
      membership = token.distance == 0 ? Membership::in : compared(-token.distance, least, error);
    }
  }
  if (filter == FilterStep::xtc && xtc_applies(row)) {
    exclude(real, memberships, row.xtc_threshold, bound);
  }
  return memberships;
}

FilterBound float32_filter_bound(std::size_t vocab) {
  constexpr double kUnit = 0x1p-24;
  const double sum = static_cast<double>(vocab) + 8;
  return {.constant = sum * kUnit,
          .per_logit = 2 * kUnit,
          .offset = 2 * kUnit,
          .step = 2 * (sum + 128) * kUnit};
}

bool is_undecided(const std::vector<float>& logits, const RowProcessing& row, FilterStep step,
                  float temperature, const FilterBound& bound) {
  if (step == FilterStep::top_n_sigma || !is_on(row, step)) return false;
  RowProcessing alone = row;
  alone.filter_chain = static_cast<std::uint64_t>(FilterStep::temperature) |
                       static_cast<std::uint64_t>(step) << kFilterStepBits;
  alone.chain_temperature = temperature;
  const std::vector<Membership> judged = judge_filter(logits, alone, bound);
  if (std::ranges::find(judged, Membership::ambiguous) != judged.end()) return true;
  // What these steps keep has equal logits at an end that a sort may split: top_k and top_p at the
  // smallest one, xtc at the largest one, typical_p at both.
  const bool splits_smallest =
      step == FilterStep::top_k || step == FilterStep::top_p || step == FilterStep::typical_p;
  const bool splits_largest = step == FilterStep::xtc || step == FilterStep::typical_p;
  std::map<float, int> kept;  // by logit: the number of tokens
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (judged[id] == Membership::in) ++kept[logits[id]];
  }
  return (splits_smallest && kept.begin()->second > 1) ||
         (splits_largest && kept.rbegin()->second > 1);
}

}  // namespace fairdraw::reference
