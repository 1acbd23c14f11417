// A row is ranked once (largest first, lowest id among equals). Every filter of the specification
// is a threshold on the value, so each keeps a prefix of that ranking, and their intersection is
// the shortest prefix. Nothing here is clever, and nothing is shared with the kernels.
#include "reference/integer_model.h"

#include <algorithm>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace fairdraw::reference {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kWeightBits = 40;

struct Ranked {
  float value;
  std::int32_t id;
};

bool is_allowed(std::span<const std::uint32_t> allowed, std::size_t id) {
  return allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
}

void check_sizes(std::size_t vocab, std::span<const std::uint32_t> allowed) {
  if (vocab > static_cast<std::size_t>(kMaxVocab)) {
    throw std::invalid_argument("vocab is above 2^20");
  }
  if (!allowed.empty() && allowed.size() < (vocab + 31) / 32) {
    throw std::invalid_argument("allowed has less than ceil(vocab / 32) words");
  }
}

// Every test is written so that NaN fails it.
bool in_unit_interval(float value) { return value >= 0 && value <= 1; }

RowStatus check_parameters(const RowParameters& parameters) {
  const float temperature = parameters.temperature;
  if (!(temperature == 0 || (temperature >= 0x1p-126F && temperature <= 0x1p64F))) {
    return RowStatus::invalid_temperature;
  }
  if (parameters.top_k < -1) return RowStatus::invalid_top_k;
  if (!in_unit_interval(parameters.top_p)) return RowStatus::invalid_top_p;
  if (!in_unit_interval(parameters.min_p)) return RowStatus::invalid_min_p;
  return RowStatus::ok;
}

RowStatus check_values(std::span<const float> values) {
  if (std::ranges::any_of(values, [](float x) { return std::isnan(x); })) {
    return RowStatus::nan_input;
  }
  if (std::ranges::any_of(values, [](float x) { return x == kInfinity; })) {
    return RowStatus::infinite_input;
  }
  return RowStatus::ok;
}

IntegerRow failed_row(std::size_t vocab, RowStatus status) {
  IntegerRow row;
  row.status = status;
  row.mask.assign(vocab, 0);
  row.weight.assign(vocab, 0);
  return row;
}

// Comparison of floats, so that -0 and +0 tie.
void rank(std::vector<Ranked>& tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const Ranked& a, const Ranked& b) { return a.value > b.value; });
}

// Number of ranked tokens that top_k keeps.
std::size_t top_k_prefix(std::span<const Ranked> ranked, std::int32_t top_k, std::size_t vocab,
                         TieRule tie_rule) {
  const bool off = top_k <= 0 || static_cast<std::size_t>(top_k) >= vocab;
  if (off || static_cast<std::size_t>(top_k) >= ranked.size()) return ranked.size();
  std::size_t kept = static_cast<std::size_t>(top_k);
  if (tie_rule == TieRule::lowest_id) return kept;
  const float cut = ranked[kept - 1].value;
  while (kept < ranked.size() && ranked[kept].value == cut) ++kept;
  return kept;
}

// max(1, ceil(top_p * total)), top_p in (0, 1) taken exactly: an integer below 2^24 times 2^-s.
std::uint64_t top_p_threshold(float top_p, std::uint64_t total) {
  int exponent = 0;
  const float significand = std::frexp(top_p, &exponent);                       // [1/2, 1)
  const Wide product = static_cast<Wide>(std::ldexp(significand, 24)) * total;  // < 2^84
  const int shift = 24 - exponent;                                              // 24 ... 172
  if (shift >= 128) return 1;
  const Wide whole = product >> shift;
  const Wide rest = product - (whole << shift);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(whole + (rest != 0 ? 1 : 0)));
}

// Number of the ranked tokens whose weight strictly above (of strictly larger values) is below
// the threshold. `base`: what top_p is measured on.
std::size_t top_p_prefix(std::span<const Ranked> base, std::span<const std::uint64_t> weight,
                         float top_p) {
  if (top_p >= 1) return base.size();
  std::uint64_t total = 0;
  for (const Ranked& token : base) total += weight[static_cast<std::size_t>(token.id)];
  const std::uint64_t threshold = top_p_threshold(top_p, total);
  std::uint64_t above = 0;
  std::size_t kept = 0;
  while (kept < base.size() && above < threshold) {
    const float value = base[kept].value;
    for (; kept < base.size() && base[kept].value == value; ++kept) {
      above += weight[static_cast<std::size_t>(base[kept].id)];
    }
  }
  return kept;
}

// top_k and top_p over the survivors of min_p, which are the first `survivors` of the ranking.
std::size_t filtered_prefix(std::span<const Ranked> ranked, std::size_t survivors,
                            std::span<const std::uint64_t> weight, const RowParameters& parameters,
                            TieRule tie_rule, FilterOrder filter_order) {
  const auto base = ranked.first(survivors);
  const std::size_t of_top_k = top_k_prefix(base, parameters.top_k, weight.size(), tie_rule);
  const auto top_p_base = filter_order == FilterOrder::joint ? base : base.first(of_top_k);
  return std::min(of_top_k, top_p_prefix(top_p_base, weight, parameters.top_p));
}

void keep(IntegerRow& row, std::span<const Ranked> kept) {
  for (const Ranked& token : kept) {
    const auto id = static_cast<std::size_t>(token.id);
    row.mask[id] = 1;
    row.total += row.weight[id];
  }
  row.support_size = static_cast<std::int32_t>(kept.size());
}

}  // namespace

std::uint64_t exp2fix(float y) {
  const float clamped = std::max(y, -63.0F);
  const float whole = std::floor(clamped);
  const float fraction = clamped - whole;
  float p = 0x1.ed113ep-10F;
  p = std::fma(p, fraction, 0x1.2677e0p-7F);
  p = std::fma(p, fraction, 0x1.c94e1ep-5F);
  p = std::fma(p, fraction, 0x1.ebd78ap-3F);
  p = std::fma(p, fraction, 0x1.62e4d4p-1F);
  p = std::fma(p, fraction, 1.0F);
  const double scaled = std::ldexp(static_cast<double>(p), static_cast<int>(whole) + kWeightBits);
  return static_cast<std::uint64_t>(std::floor(scaled));
}

float min_p_threshold(float min_p) {
  // 113 bits: log2 of a float32 is an integer or irrational, and never that close to halfway
  // between two float32 values, so rounding twice is rounding once.
  using Quad = boost::multiprecision::cpp_bin_float_quad;
  return static_cast<float>(Quad(boost::multiprecision::log2(Quad(min_p))));
}

IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowParameters& parameters, TieRule tie_rule,
                         FilterOrder filter_order) {
  check_sizes(logits.size(), allowed);
  RowStatus status = check_parameters(parameters);
  if (status == RowStatus::ok) status = check_values(logits);
  IntegerRow row = failed_row(logits.size(), status);
  if (status != RowStatus::ok) return row;

  std::vector<Ranked> ranked;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (is_allowed(allowed, id) && logits[id] != -kInfinity) {
      ranked.push_back({logits[id], static_cast<std::int32_t>(id)});
    }
  }
  if (ranked.empty()) {
    row.status = RowStatus::no_allowed_token;
    return row;
  }
  rank(ranked);

  // Temperature 0 reports probabilities at temperature 1.
  const float temperature = parameters.temperature == 0 ? 1.0F : parameters.temperature;
  const auto scale = static_cast<float>(0x1.71547652b82fep0 / static_cast<double>(temperature));
  const bool min_p_off = parameters.min_p == 0;
  const float threshold = min_p_off ? -kInfinity : min_p_threshold(parameters.min_p);
  std::size_t survivors = 0;  // the distance to the maximum does not grow along the ranking
  for (const Ranked& token : ranked) {
    const float distance = token.value - ranked.front().value;
    const float octaves = distance * scale;
    const std::uint64_t weight = exp2fix(octaves);
    row.weight[static_cast<std::size_t>(token.id)] = weight;
    row.total_unfiltered += weight;
    if (octaves >= threshold) ++survivors;
  }

  if (parameters.temperature == 0 || parameters.top_k == 1 || parameters.top_p == 0) {
    row.greedy_token = ranked.front().id;
    keep(row, std::span(ranked).first(1));
    return row;
  }
  keep(row, std::span(ranked).first(filtered_prefix(ranked, survivors, row.weight, parameters,
                                                    tie_rule, filter_order)));
  return row;
}

IntegerRow integer_model_from_probs(std::span<const float> probs, const RowParameters& parameters,
                                    FilterOrder filter_order, bool top_k_1_keeps_ties) {
  check_sizes(probs.size(), {});
  RowParameters checked = parameters;
  checked.temperature = 1;  // not used, so not checked
  RowStatus status = check_parameters(checked);
  if (status == RowStatus::ok) status = check_values(probs);
  if (status == RowStatus::ok && std::ranges::any_of(probs, [](float p) { return p < 0; })) {
    status = RowStatus::negative_probability;
  }
  IntegerRow row = failed_row(probs.size(), status);
  if (status != RowStatus::ok) return row;

  std::vector<Ranked> ranked;
  for (std::size_t id = 0; id < probs.size(); ++id) {
    if (probs[id] > 0) ranked.push_back({probs[id], static_cast<std::int32_t>(id)});
  }
  if (ranked.empty()) {
    row.status = RowStatus::no_allowed_token;
    return row;
  }
  rank(ranked);

  const double largest = ranked.front().value;
  int exponent = 0;
  std::ignore = std::frexp(largest, &exponent);  // largest * 2^-exponent is in [1/2, 1)
  // A product of two float32 values is exact in float64.
  const double least = static_cast<double>(parameters.min_p) * largest;
  std::size_t survivors = 0;
  for (const Ranked& token : ranked) {
    const double probability = token.value;
    const double scaled = std::ldexp(probability, kWeightBits - exponent);
    const auto weight = static_cast<std::uint64_t>(std::floor(scaled));
    row.weight[static_cast<std::size_t>(token.id)] = weight;
    row.total_unfiltered += weight;
    if (probability >= least) ++survivors;
  }

  if ((parameters.top_k == 1 && !top_k_1_keeps_ties) || parameters.top_p == 0) {
    row.greedy_token = ranked.front().id;
    keep(row, std::span(ranked).first(1));
    return row;
  }
  keep(row, std::span(ranked).first(filtered_prefix(ranked, survivors, row.weight, parameters,
                                                    TieRule::keep_all, filter_order)));
  return row;
}

std::vector<std::uint8_t> top_k_mask(std::span<const float> logits, std::int32_t top_k) {
  check_sizes(logits.size(), {});
  std::vector<std::uint8_t> mask(logits.size(), 0);
  if (top_k < -1 || check_values(logits) != RowStatus::ok) return mask;
  std::vector<Ranked> ranked;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != -kInfinity) ranked.push_back({logits[id], static_cast<std::int32_t>(id)});
  }
  rank(ranked);
  const std::size_t kept = top_k_prefix(ranked, top_k, logits.size(), TieRule::keep_all);
  for (const Ranked& token : std::span(ranked).first(kept)) {
    mask[static_cast<std::size_t>(token.id)] = 1;
  }
  return mask;
}

std::int32_t IntegerRow::token_at(std::uint64_t t) const {
  if (t >= total) throw std::out_of_range("position is not below the sum of the weights");
  std::uint64_t sum = 0;
  std::size_t id = 0;
  for (;; ++id) {
    if (mask[id] != 0) sum += weight[id];
    if (sum > t) return static_cast<std::int32_t>(id);
  }
}

std::int32_t IntegerRow::token_for(std::uint64_t word) const {
  if (status != RowStatus::ok) return -1;
  return token_at(static_cast<std::uint64_t>((static_cast<Wide>(word) * total) >> 64));
}

float IntegerRow::probability(std::int32_t token) const {
  const auto id = static_cast<std::size_t>(token);
  if (mask.at(id) == 0) return 0;
  return static_cast<float>(static_cast<double>(weight[id]) / static_cast<double>(total));
}

}  // namespace fairdraw::reference
