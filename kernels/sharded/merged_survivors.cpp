// From a merged row to its survivors, its tokens and their ranks (merged_row.h).
#include <algorithm>
#include <bit>
#include <iterator>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cpu/min_p_threshold.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {
namespace {

/// No measure reaches it.
constexpr uint128_t kUnreachable = ~uint128_t{0};

}  // namespace

/// Goes on to the next question, or to the end.
void MergedRow::decide() {
  if (greedy_) {
    low_ = max_;
    tie_end_ = first_at_max_.id + std::int64_t{1};
    all_survive_ = false;
    support_size_ = 1;
    survivors_weight_ = 0;
    tokens_.assign(words_.size(), first_at_max_);
  } else {
    if (!find_survivors()) {
      question_ = GatherRow{rules_->layout.row_columns, rules_->layout.raw_bits};
      return;
    }
    draw_tokens();
  }
  if (asked_.empty()) count_ranks();
}

// --- Survivors
// ------------------------------------------------------------------------------------

/// False where what is known does not say.
bool MergedRow::find_survivors() {
  std::int32_t base = smallest_key();
  if (parameters_.min_p > 0.0F) {
    base = std::max(base, order_key(cpu::min_p_threshold(parameters_.min_p, max_, rule_)));
  }
  const bool top_k = top_k_is_on(parameters_.top_k, rules_->partition.vocab());
  const auto k = static_cast<std::uint64_t>(top_k ? parameters_.top_k : 0);
  Survivors survivors;
  survivors.tie_end = rules_->partition.vocab();
  if (top_k) {
    if (!find(By::count, k, base, survivors.from)) return false;
  } else if (base > smallest_key()) {
    if (!measure(base, survivors.from)) return false;
  } else {
    survivors.from = {base, everything(), {}};
  }
  if (top_k && rules_->tie_rule == TieRule::lowest_id) cut_ties(k, survivors);
  if (parameters_.top_p < 1.0F && survivors.from.key < order_key(max_)) {
    if (!cut_to_nucleus(base, survivors)) return false;
  }
  low_ = from_order_key(survivors.from.key);
  tie_end_ = survivors.tie_end;
  all_survive_ = survivors.from.key == smallest_key() && tie_end_ == rules_->partition.vocab();
  const Measure& all = survivors.from.at_least;
  support_size_ = static_cast<std::int64_t>(all.count - survivors.cut.count);
  survivors_weight_ = all.mass - survivors.cut.mass;
  return true;
}

bool MergedRow::cut_to_nucleus(std::int32_t base, Survivors& survivors) const {
  const bool joint = rules_->filter_order == FilterOrder::joint;
  const uint128_t mass = survivors.from.at_least.mass - survivors.cut.mass;
  uint128_t measured = mass;
  if (joint) {
    measured = unfiltered_weight_;
    if (base > smallest_key()) {
      Threshold of_base;
      if (!measure(base, of_base)) return false;
      measured = of_base.at_least.mass;
    }
  }
  const uint128_t target = nucleus_target(parameters_.top_p, measured);
  // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
  if (mass < target) return true;
  Threshold end;
  if (!find(By::mass, target, survivors.from.key, end)) return false;
  if (end.key > survivors.from.key) survivors = {end, rules_->partition.vocab(), {}};
  return true;
}

/// Of the values at the threshold only the first stay, in the order of ids, so that `wanted` do.
void MergedRow::cut_ties(std::uint64_t wanted, Survivors& survivors) const {
  const std::uint64_t kept = survivors.from.at_least.count;
  if (kept <= wanted) return;
  survivors.tie_end = known_[wanted - 1].id + std::int64_t{1};
  survivors.cut.count = kept - wanted;
  for (std::uint64_t i = wanted; i < kept; ++i) survivors.cut.mass += known_[i].weight;
}

/// Every allowed value of the row.
MergedRow::Measure MergedRow::everything() const {
  Measure all{0, unfiltered_weight_};
  for (const Measure& shard : whole_) all.count += shard.count;
  for (const CutTile& tile : cut_tiles_) {
    all.count += static_cast<std::uint64_t>(std::count_if(
        tile.x.begin(), tile.x.end(), [this](float x) { return x >= rules_->smallest(); }));
  }
  return all;
}

/// The largest value >= low_key from which on the row measures at least `target`; low_key where
/// none does. False where that is not known.
bool MergedRow::find(By by, uint128_t target, std::int32_t low_key, Threshold& found) const {
  Measure sum;
  for (std::size_t i = 0; i < known_.size();) {
    const std::int32_t key = known_[i].key;
    if (key < low_key || key <= left_key_) break;
    found = {key, {}, sum};
    for (; i < known_.size() && known_[i].key == key; ++i) {
      ++sum.count;
      sum.mass += known_[i].weight;
    }
    found.at_least = sum;
    const uint128_t measured = by == By::count ? uint128_t{sum.count} : sum.mass;
    if (key == low_key || measured >= target) return true;
  }
  found = {low_key, sum, sum};  // no value is there
  return left_key_ < low_key;
}

/// The row from a key on, exactly.
bool MergedRow::measure(std::int32_t key, Threshold& found) const {
  return find(By::count, kUnreachable, key, found);
}

// --- Tokens
// ---------------------------------------------------------------------------------------

/// Asks for those that lie in whole tiles of a row that drops nothing.
void MergedRow::draw_tokens() {
  if (words_.empty()) return;
  if (survivors_weight_ == 0) {  // of blocks that were not right: every row has a survivor
    tokens_.assign(words_.size(), {});
    return;
  }
  if (is_filtered() && left_key_ < order_key(low_)) {
    draw_known();
    return;
  }
  std::vector<uint128_t> prefix;
  uint128_t before = 0;
  for (const Part& part : parts_) {
    if (part.shard >= 0) {
      before += whole_[static_cast<std::size_t>(part.shard)].mass;
    } else if (const CutTile& tile = cut_tiles_[part.cut_tile]; tile.key != kEmptyTileKey) {
      before += row_weight(tile.sum, tile.shift);
    }
    prefix.push_back(before);
  }
  tokens_.resize(words_.size());
  DrawTokens question;
  for (std::size_t t = 0; t < words_.size(); ++t) {
    uint128_t place = multiply_high(words_[t], survivors_weight_);
    const auto found = std::upper_bound(prefix.begin(), prefix.end(), place);
    if (found == prefix.end()) continue;  // likewise: masses do not add up
    const Part& part = parts_[static_cast<std::size_t>(found - prefix.begin())];
    if (found != prefix.begin()) place -= *std::prev(found);
    if (part.shard >= 0) {
      question.places.push_back({part.shard, place});
      asked_.push_back(t);
      continue;
    }
    const CutTile& tile = cut_tiles_[part.cut_tile];
    const std::size_t i = place_in_cut_tile(tile, place);
    tokens_[t] = {static_cast<std::int32_t>(tile.ids.begin) + static_cast<std::int32_t>(i),
                  tile.x[i], tile.raw[i]};
  }
  if (!asked_.empty()) question_ = std::move(question);
}

void MergedRow::take_tokens(const DrawTokens& question,
                            const std::vector<const std::byte*>& answers) {
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const auto shard = static_cast<std::size_t>(question.places[i].shard);
    const auto drawn = read_at<DrawnToken>(answers[shard], i);
    tokens_[asked_[i]] = {drawn.id, std::bit_cast<float>(drawn.bits),
                          std::bit_cast<float>(drawn.raw_bits)};
  }
  asked_.clear();
}

/// All survivors are known.
void MergedRow::draw_known() {
  std::vector<const KnownValue*> survivors;
  for (const KnownValue& value : known_) {
    if (survives(value.x, value.id)) survivors.push_back(&value);
  }
  std::sort(survivors.begin(), survivors.end(),
            [](const KnownValue* a, const KnownValue* b) { return a->id < b->id; });
  std::vector<uint128_t> prefix;
  uint128_t before = 0;
  for (const KnownValue* value : survivors) prefix.push_back(before += value->weight);
  if (before == 0) {  // of blocks that were not right
    tokens_.assign(words_.size(), {});
    return;
  }
  for (const std::uint64_t word : words_) {
    const auto found =
        std::upper_bound(prefix.begin(), prefix.end(), multiply_high(word, prefix.back()));
    const KnownValue& value = *survivors[static_cast<std::size_t>(found - prefix.begin())];
    tokens_.push_back({value.id, value.x, value.raw});
  }
}

/// Weight of a value of a cut tile in the row's unit.
uint128_t MergedRow::weight_in(const CutTile& tile, float x) const {
  const double octave = cpu::octaves_by(rule_, from_order_key(tile.key)).whole;
  return row_weight(tile_weight(cpu::octaves_by(rule_, x), octave), tile.shift);
}

std::size_t MergedRow::place_in_cut_tile(const CutTile& tile, uint128_t place) const {
  for (std::size_t i = 0; i + 1 < tile.x.size(); ++i) {
    if (tile.x[i] < rules_->smallest()) continue;
    const uint128_t weight = weight_in(tile, tile.x[i]);
    if (place < weight) return i;
    place -= weight;
  }
  return tile.x.size() - 1;
}

// --- Ranks
// ----------------------------------------------------------------------------------------

/// Equal values count up to this id.
std::int64_t MergedRow::end_of_equals(const KnownToken& token) const {
  if (rules_->rank_rule == RankRule::position) return token.id + std::int64_t{1};
  const bool cut = !is_raw(rules_->mode) && token.x == low_;
  return cut ? tie_end_ : rules_->partition.vocab();
}

/// The rank of a token whose peers are all known.
bool MergedRow::known_rank(const KnownToken& token, std::int32_t& rank) const {
  if (greedy_ && !is_raw(rules_->mode)) {
    rank = 1;
    return true;
  }
  if (rules_->reports_raw_values() || order_key(token.x) <= left_key_) return false;
  if (rules_->layout.candidates == 0) return false;
  const std::int64_t end = end_of_equals(token);
  rank = static_cast<std::int32_t>(
      std::count_if(known_.begin(), known_.end(), [&](const KnownValue& value) {
        return value.x > token.x || (value.x == token.x && value.id < end);
      }));
  return true;
}

void MergedRow::count_ranks() {
  if (!rules_->ranks) return;
  ranks_.assign(tokens_.size(), 0);
  CountInFront question;
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    const KnownToken& token = tokens_[t];
    if (known_rank(token, ranks_[t])) continue;
    const float value = rules_->reports_raw_values() ? token.raw : token.x;
    question.tokens.push_back(
        {std::bit_cast<std::uint32_t>(value), static_cast<std::int32_t>(end_of_equals(token))});
    asked_.push_back(t);
  }
  if (!asked_.empty()) question_ = std::move(question);
}

void MergedRow::take_ranks(const CountInFront& question,
                           const std::vector<const std::byte*>& answers) {
  for (std::size_t i = 0; i < question.tokens.size(); ++i) {
    for (const std::byte* answer : answers) {
      ranks_[asked_[i]] += read_at<std::int32_t>(answer, i);
    }
  }
  asked_.clear();
}

}  // namespace fairdraw::sharded
