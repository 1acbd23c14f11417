// Finds the survivors, the tokens and the tokens' ranks of a merged row (merged_row.h).
#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>
#include <variant>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cpu/thresholds/min_p_threshold.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {
namespace {

/// Target mass that no set of values reaches.
constexpr uint128_t kUnreachable = ~uint128_t{0};

}  // namespace

/// Finds the next question of the row, or finishes the row.
void MergedRow::decide() {
  if (greedy_) {
    low_ = max_;
    tie_end_ = first_at_max_.id + std::int64_t{1};
    support_size_ = 1;
    survivors_weight_ = 0;
    tokens_.assign(words_.size(), first_at_max_);
  } else if ((!find_survivors() && !is_wide()) || !draw_tokens()) {
    ask_for_row();
  }
  if (std::holds_alternative<std::monostate>(question_)) count_ranks();
}

void MergedRow::ask_for_row() {
  tokens_.clear();
  question_ = GatherRow{rules_->layout.row_columns, rules_->layout.raw_bits};
}

// --- Survivors -----------------------------------------------------------------------------------

/// Finds the survivors of the filters, or returns false if the known values do not determine them.
bool MergedRow::find_survivors() {
  std::int32_t base = smallest_key();
  if (parameters_.min_p > 0.0F) {
    base = std::max(base, order_key(cpu::min_p_threshold(parameters_.min_p, max_, rule_)));
  }
  base_key_ = base;
  const bool top_k = top_k_is_on(parameters_.top_k, rules_->partition.vocab());
  const auto k = static_cast<std::uint64_t>(top_k ? parameters_.top_k : 0);
  Survivors survivors;
  survivors.tie_end = rules_->partition.vocab();
  if (top_k) {
    if (!find(By::count, k, base, survivors.from)) return false;
  } else if (base > smallest_key()) {
    if (!measure(base, survivors.from)) return false;
  } else {
    survivors.from = {base, everything()};
  }
  if (top_k && rules_->tie_rule == TieRule::lowest_id) cut_ties(k, survivors);
  if (parameters_.top_p < 1.0F && survivors.from.key < order_key(max_)) {
    if (!cut_to_nucleus(base, survivors)) return false;
  }
  low_ = from_order_key(survivors.from.key);
  tie_end_ = survivors.tie_end;
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
  // If the filters apply in joint order, top_k may keep less mass than the nucleus needs; then
  // top_p drops nothing.
  if (mass < target) return true;
  Threshold end;
  if (!find(By::mass, target, survivors.from.key, end)) return false;
  if (end.key > survivors.from.key) survivors = {end, rules_->partition.vocab(), {}};
  return true;
}

/// Keeps, of the values at the threshold, only the values with the lowest ids, so that `wanted`
/// values survive in total.
void MergedRow::cut_ties(std::uint64_t wanted, Survivors& survivors) const {
  const std::uint64_t kept = survivors.from.at_least.count;
  if (kept <= wanted) return;
  survivors.tie_end = known_[wanted - 1].id + std::int64_t{1};
  survivors.cut.count = kept - wanted;
  for (std::uint64_t i = wanted; i < kept; ++i) survivors.cut.mass += known_[i].weight;
}

/// Returns the measure of all allowed values of the row.
MergedRow::Measure MergedRow::everything() const {
  Measure all{0, unfiltered_weight_};
  for (const Measure& shard : whole_) all.count += shard.count;
  for (const CutTile& tile : cut_tiles_) {
    all.count += static_cast<std::uint64_t>(std::count_if(
        tile.x.begin(), tile.x.end(), [this](float x) { return x >= rules_->smallest(); }));
  }
  return all;
}

/// Finds the largest value >= low_key such that the values that are at least as large have a
/// measure of at least `target`. If there is no such value, the result is low_key. Returns false if
/// the known values do not determine the result.
bool MergedRow::find(By by, uint128_t target, std::int32_t low_key, Threshold& found) const {
  Measure sum;
  for (std::size_t i = 0; i < known_.size();) {
    const std::int32_t key = known_[i].key;
    if (key < low_key || key <= left_key_) break;
    found.key = key;
    for (; i < known_.size() && known_[i].key == key; ++i) {
      ++sum.count;
      sum.mass += known_[i].weight;
    }
    found.at_least = sum;
    const uint128_t measured = by == By::count ? uint128_t{sum.count} : sum.mass;
    if (key == low_key || measured >= target) return true;
  }
  found = {low_key, sum};  // none of the known values has the key low_key
  return left_key_ < low_key;
}

/// Finds the exact measure of the row's values whose keys are at least `key`.
bool MergedRow::measure(std::int32_t key, Threshold& found) const {
  return find(By::count, kUnreachable, key, found);
}

// --- Tokens --------------------------------------------------------------------------------------

/// Returns whether the row draws its tokens by proposals. Random words that the caller gives always
/// select among the survivors.
bool MergedRow::proposes() const {
  return !words_.front().brought &&
         fairdraw::proposes(top_k_is_on(parameters_.top_k, rules_->partition.vocab()),
                            parameters_.top_p);
}

/// Returns whether attempts may decide a row whose threshold is below the listed values.
bool MergedRow::is_wide() {
  const bool may_be_wide = rules_->layout.attempts > 1;
  if (!may_be_wide || words_.empty() || !proposes() || base_key_ > smallest_key()) {
    return false;
  }
  low_ = rules_->smallest();
  tie_end_ = rules_->partition.vocab();
  survivors_weight_ = unfiltered_weight_;
  target_ = nucleus_target(parameters_.top_p, unfiltered_weight_);
  return true;
}

/// Draws the tokens, or returns false if the positions of some attempts are unknown.
bool MergedRow::draw_tokens() {
  if (words_.empty()) return true;
  if (survivors_weight_ == 0) {  // this happens only if blocks are invalid, because every row has a
                                 // survivor
    tokens_.assign(words_.size(), {});
    return true;
  }
  rejected_below_ = accepted_from_ = order_key(low_);
  if (!proposes()) {
    const bool known = is_filtered() && left_key_ < order_key(low_);
    known ? draw_known() : draw_by_parts(1);
    return true;
  }
  if (is_gathered_) {
    propose_known();
    return true;
  }
  if (base_key_ > smallest_key()) return false;
  // The known values do not reach the target, so the mass above the first unknown value is below
  // the target.
  if (target_ > 0) accepted_from_ = left_key_;
  draw_by_parts(target_ > 0 ? kWideAttempts : kAttempts);
  return true;
}

std::optional<MergedRow::Place> MergedRow::place_of(const TokenWords& words,
                                                    std::uint32_t attempt) const {
  const uint128_t place = multiply_high(words.of_attempt(attempt), unfiltered_weight_);
  const auto found =
      std::upper_bound(parts_.begin(), parts_.end(), place,
                       [](uint128_t value, const Part& part) { return value < part.end; });
  if (found == parts_.end()) return std::nullopt;  // only invalid blocks can lead here
  return Place{&*found, place - (found == parts_.begin() ? uint128_t{0} : std::prev(found)->end)};
}

std::optional<uint128_t> MergedRow::place_in_shard(std::uint32_t token, std::uint32_t attempt,
                                                   int shard) const {
  const std::optional<Place> place = place_of(words_[token], attempt);
  if (!place || place->part->shard != shard) return std::nullopt;
  return place->rest;
}

/// Asks the shards for the attempts in their whole tiles that precede the first attempt in a cut
/// tile.
void MergedRow::draw_by_parts(std::uint32_t most) {
  tokens_.resize(words_.size());
  DrawTokens question;
  question.listed = rules_->layout.attempts;
  for (std::size_t t = 0; t < words_.size(); ++t) {
    bool is_known = true;
    std::uint32_t attempt = 0;
    for (; attempt < most; ++attempt) {
      const std::optional<Place> place = place_of(words_[t], attempt);
      if (!place) continue;
      if (place->part->shard >= 0) {
        is_known = false;
        continue;
      }
      const CutTile& tile = cut_tiles_[place->part->cut_tile];
      const std::size_t i = place_in_cut_tile(tile, place->rest);
      const auto id = static_cast<std::int32_t>(tile.ids.begin) + static_cast<std::int32_t>(i);
      if (order_key(tile.x[i]) < rejected_below_) continue;
      tokens_[t] = {id, tile.x[i], tile.raw[i]};
      is_known = is_known && order_key(tile.x[i]) >= accepted_from_;
      break;
    }
    if (attempt == most) is_known = false;
    if (!is_known) question.draws.push_back({static_cast<std::uint32_t>(t), attempt});
  }
  if (!question.draws.empty()) question_ = std::move(question);
}

namespace {

std::int32_t key_of(const TokenAttempt& drawn) {
  return order_key(std::bit_cast<float>(drawn.bits));
}

KnownToken token_of_record(const TokenAttempt& drawn) {
  return {drawn.id, std::bit_cast<float>(drawn.bits), std::bit_cast<float>(drawn.raw_bits)};
}

}  // namespace

/// Returns the attempts of all shards that have a larger value than all earlier attempts. The
/// result ends at an attempt that is certainly accepted, or where the list of a shard ends too
/// early.
std::vector<TokenAttempt> MergedRow::records_of(
    const DrawTokens& question, std::size_t draw,
    const std::vector<const std::byte*>& answers) const {
  const auto& [token, attempts] = question.draws[draw];
  std::vector<TokenAttempt> listed;
  std::uint32_t end = attempts + 1;
  for (const std::byte* answer : answers) {
    std::uint32_t i = 0;
    TokenAttempt last;
    for (; i < question.listed; ++i) {
      const auto drawn = read_at<TokenAttempt>(answer, draw * question.listed + i);
      if (drawn.attempts == 0) break;
      listed.push_back(last = drawn);
    }
    if (i == question.listed && key_of(last) < accepted_from_) end = std::min(end, last.attempts);
  }
  if (const KnownToken& of_cut = tokens_[token]; of_cut.id >= 0) {
    listed.push_back({attempts + 1, of_cut.id, std::bit_cast<std::uint32_t>(of_cut.x),
                      std::bit_cast<std::uint32_t>(of_cut.raw)});
  }
  std::sort(listed.begin(), listed.end(),
            [](const TokenAttempt& a, const TokenAttempt& b) { return a.attempts < b.attempts; });
  std::vector<TokenAttempt> records;
  for (const TokenAttempt& drawn : listed) {
    if (drawn.attempts > end || records.size() == kRecords) break;
    if (!records.empty() && key_of(drawn) <= key_of(records.back())) continue;
    records.push_back(drawn);
    if (key_of(drawn) >= accepted_from_) break;
  }
  return records;
}

/// Accepts attempts. If a token has no attempt that may be accepted, the row is gathered.
void MergedRow::take_tokens(const DrawTokens& question,
                            const std::vector<const std::byte*>& answers) {
  SumAbove sums{std::vector<std::int32_t>(words_.size() * kRecords, kNoRecord)};
  bool asks = false;
  records_.resize(words_.size());
  for (std::size_t i = 0; i < question.draws.size(); ++i) {
    const std::size_t t = question.draws[i].token;
    records_[t] = records_of(question, i, answers);
    if (records_[t].empty()) {
      if (!proposes()) continue;  // only invalid blocks can lead here
      ask_for_row();
      return;
    }
    if (key_of(records_[t].front()) >= accepted_from_) {
      tokens_[t] = token_of_record(records_[t].front());
      records_[t].clear();
      continue;
    }
    asks = true;
    for (std::size_t record = 0; record < records_[t].size(); ++record) {
      const std::int32_t key = key_of(records_[t][record]);
      if (key < accepted_from_) sums.keys[t * kRecords + record] = key;
    }
  }
  if (asks) question_ = std::move(sums);
}

/// Accepts masses. If all attempts of a token are rejected, the row is gathered.
void MergedRow::take_sums(const SumAbove& question, const std::vector<const std::byte*>& answers) {
  for (std::size_t t = 0; t < words_.size(); ++t) {
    const std::vector<TokenAttempt>& records = records_[t];
    std::size_t record = 0;
    for (; record < records.size(); ++record) {
      const std::int32_t key = question.keys[t * kRecords + record];
      if (key == kNoRecord) break;
      uint128_t above = 0;
      for (const std::byte* answer : answers) {
        above += read_at<Sum128>(answer, t * kRecords + record).value();
      }
      if (above < target_) break;
    }
    if (records.empty()) continue;
    if (record == records.size()) {
      ask_for_row();
      return;
    }
    tokens_[t] = token_of_record(records[record]);
  }
}

/// Returns the known values that the filters keep, in the order of ids.
template <class Passes>
MergedRow::Pool MergedRow::pool_of(const Passes& passes) const {
  Pool pool;
  for (const KnownValue& value : known_) {
    if (passes(value)) pool.values.push_back(&value);
  }
  std::sort(pool.values.begin(), pool.values.end(),
            [](const KnownValue* a, const KnownValue* b) { return a->id < b->id; });
  uint128_t before = 0;
  for (const KnownValue* value : pool.values) pool.prefix.push_back(before += value->weight);
  return pool;
}

MergedRow::Pool MergedRow::survivors() const {
  return pool_of([this](const KnownValue& value) { return survives(value.x, value.id); });
}

/// Returns the known values in the tiles whose largest value min_p keeps.
MergedRow::Pool MergedRow::tiles_kept() const {
  std::vector<bool> kept(static_cast<std::size_t>(tiles_of(rules_->partition.vocab())));
  const auto tile_of = [](const KnownValue& value) {
    return static_cast<std::size_t>(value.id / kTileSize);
  };
  for (const KnownValue& value : known_) {
    if (value.key >= base_key_) kept[tile_of(value)] = true;
  }
  return pool_of([&](const KnownValue& value) { return kept[tile_of(value)]; });
}

const MergedRow::KnownValue& MergedRow::drawn(const Pool& pool, std::uint64_t word) {
  const auto found = std::upper_bound(pool.prefix.begin(), pool.prefix.end(),
                                      multiply_high(word, pool.prefix.back()));
  return *pool.values[static_cast<std::size_t>(found - pool.prefix.begin())];
}

/// Draws tokens from the survivors of the row. Precondition: all survivors are known.
void MergedRow::draw_known() {
  const Pool pool = survivors();
  if (pool.prefix.empty() || pool.prefix.back() == 0) {  // only invalid blocks can lead here
    tokens_.assign(words_.size(), {});
    return;
  }
  for (const TokenWords& words : words_) {
    tokens_.push_back(token_of(drawn(pool, words.of_attempt(0))));
  }
}

/// Draws by proposals. Precondition: all values of the row are known.
void MergedRow::propose_known() {
  const Pool all = survivors(), tiles = tiles_kept();
  if (all.values.empty()) {  // only invalid blocks can lead here
    tokens_.assign(words_.size(), {});
    return;
  }
  for (const TokenWords& words : words_) {
    const KnownValue* token = nullptr;
    for (std::uint32_t attempt = 0; attempt < kAttempts && token == nullptr; ++attempt) {
      const KnownValue& proposed = drawn(tiles, words.of_attempt(attempt));
      if (survives(proposed.x, proposed.id)) token = &proposed;
    }
    if (token == nullptr) token = &drawn(all, words.of_attempt(kAttempts));
    tokens_.push_back(token_of(*token));
  }
}

/// Returns the weight of a value of a cut tile in the row's unit.
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

// --- Ranks ---------------------------------------------------------------------------------------

/// Returns the id below which a column that has the same value as the token counts for the token's
/// rank.
std::int64_t MergedRow::end_of_equals(const KnownToken& token) const {
  if (rules_->rank_rule == RankRule::position) return token.id + std::int64_t{1};
  const bool cut = !is_raw(rules_->mode) && token.x == low_;
  return cut ? tie_end_ : rules_->partition.vocab();
}

/// Finds the rank of a token, if all values on which the rank depends are known.
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
