// The integer model computes the weight of every token by itself: first the octave of its tile,
// then the octave of the row, then the weight. A row with active filters is ranked once: largest
// value first, and lowest id first among equal values. Every filter of the specification is a
// threshold on the value, so each filter keeps a prefix of the ranking, and all filters together
// keep the shortest of these prefixes. The code is deliberately simple and shares nothing with the
// kernels.
#include "reference/integer_model.h"

#include <algorithm>
#include <bit>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/sort_by_key.h"

namespace fairdraw::reference {
namespace {

using boost::multiprecision::uint256_t;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kNoOctave = -std::numeric_limits<double>::infinity();
constexpr int kSignificandBits = 23;
constexpr double kSignificandUnits = 0x1p23;  // number of units in a significand of 1
constexpr int kBitsInTile = 32;               // bits of a weight in a tile beyond its significand
constexpr int kBitsInRow = 48;                // bits that the first tile's weights gain in the row
constexpr double kOctavesOfWritten = 256;     // 2^-256 is below the smallest float32
constexpr int kBitsInSpeculation = 16;        // bits of a speculation weight beyond its significand

struct Ranked {
  float value;
  std::int32_t id;

  // Returns a number that grows as the value decreases, and that grows with the id among equal
  // values. The values +0 and -0 count as equal.
  std::uint64_t place() const {
    const std::uint32_t below = 0x80000000U - static_cast<std::uint32_t>(key_of(value));
    return (static_cast<std::uint64_t>(below) << 32) + static_cast<std::uint32_t>(id);
  }
};

std::uint64_t shifted(std::uint64_t significand, int left) {
  return left >= 0 ? significand << left : significand >> -left;
}

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

// The comparison is written so that NaN fails every test.
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
  row.octave = kNoOctave;
  row.tiles.assign((vocab + kIdsOfATile - 1) / kIdsOfATile,
                   {.key = key_of(-kInfinity), .sum = 0, .octave = kNoOctave});
  row.mask.assign(vocab, 0);
  row.weight.assign(vocab, 0);
  row.uncut_weight.assign(vocab, 0);
  row.speculation_weight.assign(vocab, 0);
  return row;
}

// Returns the weight of a token in a row as a real number before any bit is cut off; a double
// represents it exactly.
double uncut_weight(const TokenOctaves& token, double row_octave) {
  const double below = row_octave - token.whole;
  if (below >= kOctavesOfWritten) return 0;
  return std::ldexp(static_cast<double>(token.significand),
                    kBitsInTile + kBitsInRow - static_cast<int>(below));
}

// Sets the weights of the allowed tokens, given in any order, and the fields of their tiles. The
// function `octaves_of` converts a value to octaves.
template <typename OctavesOf>
void weigh(IntegerRow& row, std::span<const Ranked> tokens, OctavesOf octaves_of) {
  std::vector<TokenOctaves> octaves;
  octaves.reserve(tokens.size());
  for (const Ranked& token : tokens) {
    octaves.push_back(octaves_of(token.value));
    TileOfRow& tile = row.tiles[static_cast<std::size_t>(token.id) / kIdsOfATile];
    tile.key = std::max(tile.key, key_of(token.value));
    tile.octave = std::max(tile.octave, octaves.back().whole);
    row.octave = std::max(row.octave, tile.octave);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(tokens[i].id);
    TileOfRow& tile = row.tiles[id / kIdsOfATile];
    const std::uint64_t weight = weight_in_tile(octaves[i], tile.octave);
    tile.sum += weight;
    row.weight[id] = weight_in_row(weight, tile.octave, row.octave);
    row.uncut_weight[id] = uncut_weight(octaves[i], row.octave);
    row.speculation_weight[id] = weight_in_speculation(octaves[i], row.octave);
    row.total_unfiltered += row.weight[id];
  }
}

// Ranks the tokens, which are given in the order of their ids. No two tokens have the same place,
// so every sort gives the same ranking.
void rank(std::vector<Ranked>& tokens, std::span<const float> values) {
  std::vector<std::uint64_t> places;
  places.reserve(tokens.size());
  for (const Ranked& token : tokens) places.push_back(token.place());
  sort_by_key(places);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(places[i]);
    tokens[i] = {values[id], static_cast<std::int32_t>(id)};
  }
}

bool top_k_is_off(std::int32_t top_k, std::size_t vocab) {
  return top_k <= 0 || static_cast<std::size_t>(top_k) >= vocab;
}

// Returns the number of ranked tokens that top_k keeps.
std::size_t top_k_prefix(std::span<const Ranked> ranked, std::int32_t top_k, std::size_t vocab,
                         TieRule tie_rule) {
  if (top_k_is_off(top_k, vocab) || static_cast<std::size_t>(top_k) >= ranked.size())
    return ranked.size();
  std::size_t kept = static_cast<std::size_t>(top_k);
  if (tie_rule == TieRule::lowest_id) return kept;
  const float cut = ranked[kept - 1].value;
  while (kept < ranked.size() && ranked[kept].value == cut) ++kept;
  return kept;
}

// Returns max(1, ceil(top_p * total)); the float top_p in (0, 1) is used exactly, as an integer
// below 2^24 times 2^-s.
RowWeight top_p_threshold(float top_p, RowWeight total) {
  int exponent = 0;
  const float significand = std::frexp(top_p, &exponent);  // [1/2, 1)
  const uint256_t product =
      uint256_t(static_cast<std::uint32_t>(std::ldexp(significand, 24))) * uint256_t(total);
  const int shift = 24 - exponent;  // from 24 to 172; the product is below 2^148
  const uint256_t whole = product >> shift;
  const uint256_t threshold = (whole << shift) == product ? whole : whole + 1;
  return static_cast<RowWeight>(threshold == 0 ? uint256_t(1) : threshold);
}

// Returns the number of ranked tokens for which the total weight of strictly larger values is below
// the threshold. The list `base` holds the tokens whose mass top_p refers to.
std::size_t top_p_prefix(std::span<const Ranked> base, std::span<const RowWeight> weight,
                         float top_p) {
  if (top_p >= 1) return base.size();
  RowWeight total = 0;
  for (const Ranked& token : base) total += weight[static_cast<std::size_t>(token.id)];
  const RowWeight threshold = top_p_threshold(top_p, total);
  RowWeight above = 0;
  std::size_t kept = 0;
  while (kept < base.size() && above < threshold) {
    const float value = base[kept].value;
    for (; kept < base.size() && base[kept].value == value; ++kept) {
      above += weight[static_cast<std::size_t>(base[kept].id)];
    }
  }
  return kept;
}

// Applies top_k and top_p to the tokens that min_p keeps, the first `survivors` tokens of the
// ranking.
std::size_t filtered_prefix(std::span<const Ranked> ranked, std::size_t survivors,
                            std::span<const RowWeight> weight, const RowParameters& parameters,
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

// Sets whether the row draws by proposals, and from which tiles. The filter min_p keeps the first
// `survivors` tokens of the ranking, so it keeps a tile's largest value if this value is at least
// that of the last survivor.
void set_proposals(IntegerRow& row, std::span<const Ranked> ranked, std::size_t survivors,
                   const RowParameters& parameters) {
  row.proposes = parameters.top_p < 1 && top_k_is_off(parameters.top_k, row.mask.size());
  const std::int32_t least = key_of(ranked[survivors - 1].value);
  for (TileOfRow& tile : row.tiles) tile.proposes = row.proposes && tile.key >= least;
}

// Keeps only the token with the largest value, and the lowest id among equal values.
void keep_greedy(IntegerRow& row, std::span<const Ranked> tokens) {
  const Ranked first = std::ranges::min(tokens, {}, &Ranked::place);
  row.greedy_token = first.id;
  keep(row, std::span(&first, 1));
}

// True if no filter is active. Without filters no ranking is needed, and ranking takes most of the
// time of a row.
bool keeps_all(const RowParameters& parameters) {
  return parameters.top_k <= 0 && parameters.top_p >= 1 && parameters.min_p == 0;
}

}  // namespace

float octaves_per_logit(float temperature) {
  return static_cast<float>(0x1.71547652b82fep0 / static_cast<double>(temperature));
}

std::uint32_t octave_significand(float r) {
  float p = 0x1.5bda58p-10F;
  p = std::fma(p, r, 0x1.3ce8aep-7F);
  p = std::fma(p, r, 0x1.c6b6d8p-5F);
  p = std::fma(p, r, 0x1.ebf9c2p-3F);
  p = std::fma(p, r, 0x1.62e42ap-1F);
  // 2^r plus one half lies in [1, 2), so the sum is rounded to a multiple of 2^-23.
  const float raised = std::fma(p, r, 1.5F);
  return static_cast<std::uint32_t>((static_cast<double>(raised) - 0.5) * kSignificandUnits);
}

TokenOctaves octaves_of_logit(float logit, float scale) {
  // The product is exact, because 24 bits times 24 bits fit a double, and its exponent is far from
  // the ends of double's range.
  const double octaves = static_cast<double>(logit) * static_cast<double>(scale);
  const double whole = std::nearbyint(octaves);
  return {whole, octave_significand(static_cast<float>(octaves - whole))};
}

TokenOctaves octaves_of_prob(float probability) {
  // Subnormal floats share the exponent of the smallest normal number, and have fewer than 24 bits.
  const int whole = std::max(std::ilogb(probability), -126);
  return {static_cast<double>(whole),
          static_cast<std::uint32_t>(
              std::ldexp(static_cast<double>(probability), kSignificandBits - whole))};
}

std::uint64_t weight_in_tile(const TokenOctaves& token, double tile_octave) {
  const double below = tile_octave - token.whole;
  return below < 64 ? shifted(token.significand, kBitsInTile - static_cast<int>(below)) : 0;
}

RowWeight weight_in_row(std::uint64_t weight, double tile_octave, double row_octave) {
  const double gap = row_octave - tile_octave;
  if (gap > kBitsInRow) return 0;
  return static_cast<RowWeight>(weight) << (kBitsInRow - static_cast<int>(gap));
}

std::uint64_t weight_in_speculation(const TokenOctaves& token, double row_octave) {
  const double below = row_octave - token.whole;
  return below < 64 ? shifted(token.significand, kBitsInSpeculation - static_cast<int>(below)) : 0;
}

float min_p_threshold(float min_p) {
  // The logarithm is computed in 113 bits. The base-2 logarithm of a float32 is an integer or
  // irrational, and never so close to halfway between two float32 values that rounding twice
  // differs from rounding once.
  using Quad = boost::multiprecision::cpp_bin_float_quad;
  return static_cast<float>(Quad(boost::multiprecision::log2(Quad(min_p))));
}

std::int32_t key_of(float value) {
  // Bit patterns of positive floats, read as integers, have the same order as the floats.
  const auto magnitude = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(std::fabs(value)));
  return value < 0 ? -magnitude : magnitude;
}

double to_nearest_double(RowWeight weight) {
  // Rounds half to even; the bits after the 54th decide whether the weight is exactly halfway.
  const auto upper = static_cast<std::uint64_t>(weight >> 64);
  const auto lower = static_cast<std::uint64_t>(weight);
  const int zeros = upper != 0 ? std::countl_zero(upper) : 64 + std::countl_zero(lower);
  const int shift = std::max(0, 128 - zeros - 53);
  auto significand = static_cast<std::uint64_t>(weight >> shift);
  const RowWeight rest = weight - (static_cast<RowWeight>(significand) << shift);
  const RowWeight half = shift > 0 ? RowWeight{1} << (shift - 1) : 1;
  const bool is_odd = (significand & 1U) != 0;
  if (rest > half || (rest == half && is_odd)) ++significand;
  return std::ldexp(static_cast<double>(significand), shift);
}

IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowParameters& parameters, TieRule tie_rule,
                         FilterOrder filter_order) {
  check_sizes(logits.size(), allowed);
  RowStatus status = check_parameters(parameters);
  if (status == RowStatus::ok) status = check_values(logits);
  IntegerRow row = failed_row(logits.size(), status);
  if (status != RowStatus::ok) return row;

  std::vector<Ranked> ranked;  // the tokens stay in the order of ids until a filter is active
  ranked.reserve(logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (is_allowed(allowed, id) && logits[id] != -kInfinity) {
      ranked.push_back({logits[id], static_cast<std::int32_t>(id)});
    }
  }
  if (ranked.empty()) {
    row.status = RowStatus::no_allowed_token;
    return row;
  }

  // Rows at temperature 0 report probabilities at temperature 1.
  const float scale = octaves_per_logit(parameters.temperature == 0 ? 1 : parameters.temperature);
  weigh(row, ranked, [scale](float logit) { return octaves_of_logit(logit, scale); });
  if (parameters.temperature == 0 || parameters.top_k == 1 || parameters.top_p == 0) {
    keep_greedy(row, ranked);
    return row;
  }
  if (keeps_all(parameters)) {
    keep(row, ranked);
    return row;
  }
  rank(ranked, logits);

  // The filter min_p compares the float32 distance to the maximum, which never decreases along the
  // ranking.
  const float threshold = parameters.min_p == 0 ? -kInfinity : min_p_threshold(parameters.min_p);
  const auto survives = [&](const Ranked& token) {
    const float distance = token.value - ranked.front().value;
    return distance * scale >= threshold;
  };
  const auto survivors = static_cast<std::size_t>(std::ranges::count_if(ranked, survives));
  set_proposals(row, ranked, survivors, parameters);
  keep(row, std::span(ranked).first(filtered_prefix(ranked, survivors, row.weight, parameters,
                                                    tie_rule, filter_order)));
  return row;
}

IntegerRow integer_model_from_probs(std::span<const float> probs, const RowParameters& parameters,
                                    FilterOrder filter_order, bool top_k_1_keeps_ties) {
  check_sizes(probs.size(), {});
  RowParameters checked = parameters;
  checked.temperature = 1;  // probabilities use no temperature, so it is not checked
  RowStatus status = check_parameters(checked);
  if (status == RowStatus::ok) status = check_values(probs);
  if (status == RowStatus::ok && std::ranges::any_of(probs, [](float p) { return p < 0; })) {
    status = RowStatus::negative_probability;
  }
  IntegerRow row = failed_row(probs.size(), status);
  if (status != RowStatus::ok) return row;

  std::vector<Ranked> ranked;  // the tokens stay in the order of ids until a filter is active
  ranked.reserve(probs.size());
  for (std::size_t id = 0; id < probs.size(); ++id) {
    if (probs[id] > 0) ranked.push_back({probs[id], static_cast<std::int32_t>(id)});
  }
  if (ranked.empty()) {
    row.status = RowStatus::no_allowed_token;
    return row;
  }
  weigh(row, ranked, octaves_of_prob);
  if ((parameters.top_k == 1 && !top_k_1_keeps_ties) || parameters.top_p == 0) {
    keep_greedy(row, ranked);
    return row;
  }
  if (keeps_all(parameters)) {
    keep(row, ranked);
    return row;
  }
  rank(ranked, probs);

  // A product of two float32 values is exact in float64.
  const double least =
      static_cast<double>(parameters.min_p) * static_cast<double>(ranked.front().value);
  const auto survives = [least](const Ranked& token) {
    return static_cast<double>(token.value) >= least;
  };
  const auto survivors = static_cast<std::size_t>(std::ranges::count_if(ranked, survives));
  set_proposals(row, ranked, survivors, parameters);
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
  rank(ranked, logits);
  const std::size_t kept = top_k_prefix(ranked, top_k, logits.size(), TieRule::keep_all);
  for (const Ranked& token : std::span(ranked).first(kept)) {
    mask[static_cast<std::size_t>(token.id)] = 1;
  }
  return mask;
}

RowWeight position_of(std::uint64_t word, RowWeight total) {
  return static_cast<RowWeight>((uint256_t(word) * uint256_t(total)) >> 64);
}

std::int32_t IntegerRow::token_at(RowWeight t) const {
  if (t >= total) throw std::out_of_range("position is not below the sum of the weights");
  RowWeight sum = 0;
  std::size_t id = 0;
  for (;; ++id) {
    if (mask[id] != 0) sum += weight[id];
    if (sum > t) return static_cast<std::int32_t>(id);
  }
}

std::int32_t IntegerRow::token_for(std::uint64_t word) const {
  if (status != RowStatus::ok) return -1;
  return token_at(position_of(word, total));
}

std::int32_t IntegerRow::token_by_attempts(
    const std::function<std::uint64_t(std::uint32_t)>& word) const {
  if (status != RowStatus::ok) return -1;
  if (!proposes) return token_for(word(0));
  for (std::uint32_t attempt = 0; attempt < kAttemptsOfADraw; ++attempt) {
    const std::int32_t token = proposal_for(word(attempt));
    if (mask[static_cast<std::size_t>(token)] != 0) return token;
  }
  return token_for(word(kAttemptsOfADraw));
}

std::int32_t IntegerRow::proposal_for(std::uint64_t word) const {
  const auto sum_in_row = [this](const TileOfRow& tile) {
    return tile.proposes ? weight_in_row(tile.sum, tile.octave, octave) : 0;
  };
  RowWeight whole = 0;
  for (const TileOfRow& tile : tiles) whole += sum_in_row(tile);
  RowWeight left = position_of(word, whole);
  std::size_t at = 0;
  for (; left >= sum_in_row(tiles[at]); ++at) left -= sum_in_row(tiles[at]);
  std::size_t id = at * kIdsOfATile;
  for (; left >= weight[id]; ++id) left -= weight[id];
  return static_cast<std::int32_t>(id);
}

std::optional<std::uint64_t> IntegerRow::first_word_at(RowWeight t) const {
  const uint256_t word = ((uint256_t(t) << 64) + uint256_t(total) - 1) / uint256_t(total);
  if (word >> 64 != 0) return std::nullopt;
  return static_cast<std::uint64_t>(word);
}

std::uint64_t IntegerRow::speculation_total() const {
  std::uint64_t sum = 0;
  for (std::size_t id = 0; id < mask.size(); ++id)
    sum += mask[id] != 0 ? speculation_weight[id] : 0;
  return sum;
}

std::int32_t IntegerRow::speculation_token_for(std::uint64_t word) const {
  if (status != RowStatus::ok) return -1;
  const RowWeight t = position_of(word, speculation_total());
  std::uint64_t sum = 0;
  std::size_t id = 0;
  for (;; ++id) {
    if (mask[id] != 0) sum += speculation_weight[id];
    if (sum > t) return static_cast<std::int32_t>(id);
  }
}

float IntegerRow::probability(std::int32_t token) const {
  const auto id = static_cast<std::size_t>(token);
  if (mask.at(id) == 0) return 0;
  return static_cast<float>(uncut_weight[id] / to_nearest_double(total));
}

}  // namespace fairdraw::reference
