// detect_watermark and watermark_threshold (fairdraw/watermark.h).
#include <algorithm>
#include <bit>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "fairdraw/watermark.h"
#include "serving/rules/watermark_rules.h"

namespace fairdraw {
namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr int kTilts = 16;  // the tilts of the e-value are i / 16, 0 < i < 16

/// Returns the positions whose pair of context and token occurs for the first time, ascending.
std::vector<std::int64_t> first_occurrences(const WatermarkText& text) {
  const std::int32_t* const ids = text.tokens.data;
  const std::int64_t length = text.tokens.size;
  const auto id_at = [&](std::int64_t position) { return position < 0 ? -1 : ids[position]; };
  // Returns the difference of the pairs at two positions in a lexicographic order.
  const auto difference = [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t back = 0; back <= text.rule.window; ++back) {
      if (id_at(a - back) != id_at(b - back)) return id_at(a - back) - id_at(b - back);
    }
    return 0;
  };
  std::vector<std::int64_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::int64_t a, std::int64_t b) { return difference(a, b) < 0; });
  positions.erase(
      std::unique(positions.begin(), positions.end(),
                  [&](std::int64_t a, std::int64_t b) { return difference(a, b) == 0; }),
      positions.end());
  std::sort(positions.begin(), positions.end());
  return positions;
}

/// Returns the score of a word.
double score_of(const WatermarkRule& rule, std::uint64_t word) {
  switch (rule.scheme) {
    case WatermarkScheme::race:
      return 64 * kLn2 - std::log(static_cast<double>(~word) + 0.5);
    case WatermarkScheme::tournament:
      return std::popcount(word >> (64 - rule.layers));
    case WatermarkScheme::green_list:
      break;
  }
  return word < green_limit(rule.green_share) ? 1 : 0;
}

/// Returns the score of the given positions under a key.
double score_of(const WatermarkText& text, const std::vector<std::int64_t>& positions,
                std::uint64_t key) {
  double score = 0;
  for (const std::int64_t position : positions) {
    const std::int32_t* const ids = text.tokens.data;
    const std::uint64_t context = context_key(key, text.rule.window, ids, position);
    score += score_of(text.rule, keyed_word(context, ids[position]));
  }
  return score;
}

/// Distribution of the score of unmarked text: Gamma(positions, 1), or Binomial(trials, success).
struct UnmarkedScore {
  bool is_gamma;
  double positions, trials, success;

  UnmarkedScore(const WatermarkRule& rule, double scored)
      : is_gamma(rule.scheme == WatermarkScheme::race),
        positions(scored),
        trials(rule.scheme == WatermarkScheme::tournament ? scored * rule.layers : scored),
        success(rule.scheme == WatermarkScheme::tournament
                    ? 0.5
                    : static_cast<double>(green_limit(rule.green_share)) * 0x1p-64) {}

  /// Returns the probability of a score of at least `score`.
  double tail(double score) const {
    if (is_gamma) return boost::math::gamma_q(positions, score);
    if (score <= 0) return 1;
    return score > trials ? 0 : boost::math::ibeta(score, trials - score + 1, success);
  }

  double log_e_value(double score) const;
};

/// Returns the natural logarithm of the mean of exponentials.
double log_mean_exp(const std::vector<double>& logarithms) {
  const double largest = *std::max_element(logarithms.begin(), logarithms.end());
  double sum = 0;
  for (const double logarithm : logarithms) sum += std::exp(logarithm - largest);
  return largest + std::log(sum / static_cast<double>(logarithms.size()));
}

double UnmarkedScore::log_e_value(double score) const {
  std::vector<double> terms;
  for (int i = 1; i < kTilts; ++i) {
    const double tilt = static_cast<double>(i) / kTilts;
    terms.push_back(is_gamma ? positions * std::log1p(-tilt) + tilt * score
                             : score * std::log1p((1 - success) * tilt / success) +
                                   (trials - score) * std::log1p(-tilt));
  }
  return log_mean_exp(terms);
}

}  // namespace

Error detect_watermark(const WatermarkText& text, WatermarkEvidence& evidence) {
  if (Error error = check_watermark_text(text)) return error;
  const std::vector<std::int64_t> positions = first_occurrences(text);
  const UnmarkedScore unmarked(text.rule, static_cast<double>(positions.size()));
  WatermarkEvidence found;
  found.scored = static_cast<std::int64_t>(positions.size());
  std::vector<double> log_e_values;
  for (std::int64_t i = 0; i < text.keys.size; ++i) {
    const double score = score_of(text, positions, text.keys.data[i]);
    log_e_values.push_back(unmarked.log_e_value(score));
    if (i > 0 && score <= found.score) continue;
    found.score = score;
    found.key = i;
  }
  found.log_e_value = log_mean_exp(log_e_values);
  if (found.scored > 0) {
    found.p_value = std::min(1.0, static_cast<double>(text.keys.size) * unmarked.tail(found.score));
  }
  evidence = found;
  return {};
}

Error watermark_threshold(const WatermarkRule& rule, std::int64_t scored, std::int64_t keys,
                          double false_positive_rate, double& score) {
  if (Error error = check_watermark_rule(rule)) return error;
  constexpr std::int64_t kMax = std::int64_t{1} << 32;
  if (scored < 1 || scored > kMax) {
    return out_of_range("scored", std::to_string(scored), "1 to 2^32");
  }
  if (keys < 1 || keys > kMax) return out_of_range("keys", std::to_string(keys), "1 to 2^32");
  if (!(false_positive_rate > 0 && false_positive_rate <= 1)) {
    return out_of_range("false_positive_rate", std::to_string(false_positive_rate),
                        "above 0, at most 1");
  }
  const UnmarkedScore unmarked(rule, static_cast<double>(scored));
  const auto exceeds = [&](double tail) {
    return std::min(1.0, static_cast<double>(keys) * tail) > false_positive_rate;
  };
  if (false_positive_rate == 1) {
    score = 0;
    return {};
  }
  if (unmarked.is_gamma) {
    const double rate = false_positive_rate / static_cast<double>(keys);
    // The inverse is rounded, so the score is moved up until its p-value is at most the rate.
    double found = boost::math::gamma_q_inv(unmarked.positions, rate);
    for (double step = 0x1p-52; exceeds(unmarked.tail(found)); step *= 2) found += found * step;
    score = found;
    return {};
  }
  double low = -1;  // a score whose tail is above the rate, if it is at least 0
  double high = unmarked.trials + 1;
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (exceeds(unmarked.tail(middle)) ? low : high) = middle;
  }
  score = high;
  return {};
}

}  // namespace fairdraw
