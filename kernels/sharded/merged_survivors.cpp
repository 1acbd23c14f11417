// From a merged row to its survivors, its tokens and their ranks (merged_row.h). Each function that
// asks returns false where an answer is missing.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cpu/min_p_threshold.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {
namespace {

/// No measure reaches it.
constexpr uint128_t kUnreachable = ~uint128_t{0};

void add(Measure& sum, std::uint64_t count, uint128_t mass) {
  sum.count += count;
  sum.mass = sum.mass.value() + mass;
}

}  // namespace

bool MergedRow::decide() {
  tokens_.clear();
  ranks_.clear();
  if (greedy_) {
    low_ = max_;
    tie_end_ = first_at_max_.id + std::int64_t{1};
    all_survive_ = false;
    support_size_ = 1;
    survivors_weight_ = 0;
    tokens_.assign(words_.size(), first_at_max_);
    return count_ranks();
  }
  return find_survivors() && draw_tokens() && count_ranks();
}

// --- Survivors
// ------------------------------------------------------------------------------------

bool MergedRow::find_survivors() {
  std::int32_t base = smallest_key();
  if (parameters_.min_p > 0.0F) {
    base = std::max(base, order_key(cpu::min_p_threshold(parameters_.min_p, max_, rule_)));
  }
  const bool top_k = top_k_is_on(parameters_.top_k, rules_->partition.vocab());
  const auto k = static_cast<std::uint64_t>(top_k ? parameters_.top_k : 0);
  Survivors survivors;
  survivors.tie_end = rules_->partition.vocab();
  survivors.cut_ties.resize(static_cast<std::size_t>(shards()));
  if (top_k) {
    if (!find(By::count, k, base, survivors.from)) return false;
  } else if (base > smallest_key()) {
    if (!measure(base, survivors.from)) return false;
  } else {
    survivors.from = everything();
  }
  if (top_k && rules_->tie_rule == TieRule::lowest_id) {
    if (!cut_ties(k, survivors)) return false;
  }
  if (parameters_.top_p < 1.0F && survivors.from.key < order_key(max_)) {
    if (!cut_to_nucleus(base, survivors)) return false;
  }
  set_survivors(survivors);
  return true;
}

bool MergedRow::cut_to_nucleus(std::int32_t base, Survivors& survivors) {
  const bool joint = rules_->filter_order == FilterOrder::joint;
  const Threshold& from = survivors.from;
  const uint128_t mass = value_of(By::mass, from.at_least, from.key) - survivors.cut_mass;
  uint128_t measured = mass;
  if (joint) {
    measured = unfiltered_weight_;
    if (base > smallest_key()) {
      Threshold of_base;
      if (!measure(base, of_base)) return false;
      measured = value_of(By::mass, of_base.at_least, base);
    }
  }
  const uint128_t target = nucleus_target(parameters_.top_p, measured);
  // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
  if (mass < target) return true;
  Threshold end;
  if (!find(By::mass, target, from.key, end)) return false;
  if (end.key > from.key) {
    survivors = {end, rules_->partition.vocab(), ByShard(static_cast<std::size_t>(shards())), 0, 0};
  }
  return true;
}

/// Of the values at the threshold only the first stay, in the order of ids, so that `wanted` do.
bool MergedRow::cut_ties(std::uint64_t wanted, Survivors& survivors) {
  const Threshold& from = survivors.from;
  const std::uint64_t kept = total_of(from.at_least, from.key).count;
  if (kept <= wanted) return true;
  std::uint64_t left = wanted - total_of(from.above, from.key + 1).count;
  const float value = from_order_key(from.key);
  bool found = false;
  for (const Part& part : parts_) {
    if (part.shard < 0) {
      const CutTile& tile = cut_tiles_[part.cut_tile];
      for (std::size_t i = 0; i < tile.x.size(); ++i) {
        if (tile.x[i] != value) continue;
        if (found) {
          survivors.cut_mass += weight_in(tile, value);
          ++survivors.cut_count;
        } else if (--left == 0) {
          found = true;
          survivors.tie_end = part.begin + static_cast<std::int64_t>(i) + 1;
        }
      }
      continue;
    }
    const auto s = static_cast<std::size_t>(part.shard);
    const std::uint64_t ties = from.at_least[s].count - from.above[s].count;
    const uint128_t mass = from.at_least[s].mass.value() - from.above[s].mass.value();
    Measure cut;
    if (found) {
      cut = {ties, mass};
    } else if (ties >= left) {
      found = true;
      std::uint64_t seen = 0;
      if (left_key_ < from.key) {
        for (const KnownValue& known : known_) {
          if (known.shard != part.shard || known.key != from.key) continue;
          if (++seen == left) survivors.tie_end = known.id + std::int64_t{1};
          if (seen > left) add(cut, 1, known.weight);
        }
      } else {
        const Answers* answers = ask(FindTie{from.key, part.shard, left});
        if (answers == nullptr) return false;
        const auto answer = read_at<TieAnswer>(answers->of(part.shard));
        survivors.tie_end = answer.id + std::int64_t{1};
        cut = {ties - left, answer.after};
      }
    } else {
      left -= ties;
    }
    survivors.cut_ties[s] = cut;
    survivors.cut_mass += cut.mass.value();
    survivors.cut_count += cut.count;
  }
  return true;
}

void MergedRow::set_survivors(const Survivors& survivors) {
  const Threshold& from = survivors.from;
  low_ = from_order_key(from.key);
  tie_end_ = survivors.tie_end;
  all_survive_ = from.key == smallest_key() && tie_end_ == rules_->partition.vocab();
  survivors_ = from.at_least;
  for (std::size_t s = 0; s < survivors_.size(); ++s) {
    survivors_[s].count -= survivors.cut_ties[s].count;
    survivors_[s].mass = survivors_[s].mass.value() - survivors.cut_ties[s].mass.value();
  }
  const Measure all = is_filtered() ? total_of(from.at_least, from.key) : Measure{};
  if (is_filtered()) {
    support_size_ = static_cast<std::int64_t>(all.count - survivors.cut_count);
    survivors_weight_ = all.mass.value() - survivors.cut_mass;
    return;
  }
  survivors_weight_ = unfiltered_weight_;
  support_size_ = 0;
  for (const Measure& shard : survivors_) support_size_ += static_cast<std::int64_t>(shard.count);
  for (const CutTile& tile : cut_tiles_) {
    support_size_ += std::count_if(tile.x.begin(), tile.x.end(),
                                   [this](float x) { return x >= rules_->smallest(); });
  }
}

// --- Thresholds
// -----------------------------------------------------------------------------------

MergedRow::Threshold MergedRow::everything() const {
  return {smallest_key(), whole_, whole_};  // no allowed value is below
}

/// Of values in cut tiles from a key on.
Measure MergedRow::cut_measure(std::int32_t key) const {
  const auto below = std::partition_point(cut_points_.begin(), cut_points_.end(),
                                          [key](const Point& point) { return point.key >= key; });
  if (below == cut_points_.begin()) return {};
  return {std::prev(below)->count, std::prev(below)->mass};
}

/// Of the row: of whole tiles as given, and of cut tiles from a key on.
Measure MergedRow::total_of(const ByShard& shards, std::int32_t key) const {
  Measure total = cut_measure(key);
  for (const Measure& shard : shards) add(total, shard.count, shard.mass.value());
  return total;
}

uint128_t MergedRow::value_of(By by, const ByShard& shards, std::int32_t key) const {
  const Measure total = total_of(shards, key);
  return by == By::count ? uint128_t{total.count} : total.mass.value();
}

/// The largest value >= low_key from which on the row measures at least `target`; low_key where
/// none does.
bool MergedRow::find(By by, uint128_t target, std::int32_t low_key, Threshold& found) {
  found.at_least.assign(static_cast<std::size_t>(shards()), {});
  found.above = found.at_least;
  for (std::size_t i = 0; i < known_.size();) {
    const std::int32_t key = known_[i].key;
    if (key < low_key || key <= left_key_) break;
    found.above = found.at_least;
    found.key = key;
    for (; i < known_.size() && known_[i].key == key; ++i) {
      const KnownValue& value = known_[i];
      if (value.shard < 0) continue;
      add(found.at_least[static_cast<std::size_t>(value.shard)], 1, value.weight);
    }
    if (key == low_key || value_of(by, found.at_least, key) >= target) return true;
  }
  if (left_key_ >= low_key) return find_below_known(by, target, low_key, left_key_, found);
  found.key = low_key;  // no value is there
  found.above = found.at_least;
  return true;
}

/// The row from a key on, exactly.
bool MergedRow::measure(std::int32_t key, Threshold& found) {
  return left_key_ < key ? find(By::count, kUnreachable, key, found)
                         : find_below_known(By::count, kUnreachable, key, key, found);
}

namespace {

/// A shard's answer, and its measure at any value.
class ShardWindow {
 public:
  explicit ShardWindow(const std::byte* answer) : answer_(read_at<ThresholdAnswer>(answer)) {}

  bool complete() const { return answer_.complete != 0; }
  const ThresholdAnswer& answer() const { return answer_; }
  /// At most that of the shard's values from `key` on: that of the next point above.
  Measure at_least_so_much(std::int32_t key) const {
    const Point* begin = answer_.point;
    const Point* end = begin + answer_.points;
    const Point* below =
        std::partition_point(begin, end, [key](const Point& point) { return point.key >= key; });
    return below == begin ? answer_.above : of(*std::prev(below));
  }
  /// At least that, of keys above the window's low end: that of the next point below.
  Measure at_most_so_much(std::int32_t key) const {
    if (complete()) return at_least_so_much(key);
    const Point* begin = answer_.point;
    const Point* end = begin + answer_.points;
    const Point* at =
        std::partition_point(begin, end, [key](const Point& point) { return point.key > key; });
    return at == end ? answer_.at_least : of(*at);
  }

 private:
  static Measure of(const Point& point) { return {point.count, point.mass}; }
  ThresholdAnswer answer_;
};

}  // namespace

/// As find(), where the answer is a value in [low_key, high_key], or low_key.
bool MergedRow::find_below_known(By by, uint128_t target, std::int32_t low_key,
                                 std::int32_t high_key, Threshold& found) {
  for (;;) {
    const Answers* answers = ask(FindThreshold{low_key, high_key});
    if (answers == nullptr) return false;
    std::vector<ShardWindow> windows;
    std::vector<std::int32_t> keys;  // of all points above the low end, falling
    bool complete = true;
    for (int shard = 0; shard < shards(); ++shard) {
      windows.emplace_back(answers->of(shard));
      const ThresholdAnswer& answer = windows.back().answer();
      for (std::uint32_t i = 0; i < answer.points; ++i) keys.push_back(answer.point[i].key);
      complete = complete && windows.back().complete();
    }
    for (const Point& point : cut_points_) {
      if (point.key > low_key && point.key <= high_key) keys.push_back(point.key);
    }
    std::sort(keys.begin(), keys.end(), std::greater<>());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    ByShard shards_at(windows.size());
    const auto measure_at = [&](std::int32_t key, auto bound) {
      for (std::size_t s = 0; s < windows.size(); ++s) shards_at[s] = bound(windows[s], key);
      return value_of(by, shards_at, key);
    };
    const auto lower = [](const ShardWindow& window, std::int32_t key) {
      return window.at_least_so_much(key);
    };
    const auto upper = [](const ShardWindow& window, std::int32_t key) {
      return window.at_most_so_much(key);
    };
    if (complete) {
      found.key = low_key;
      for (const std::int32_t key : keys) {
        if (measure_at(key, lower) < target) continue;
        found.key = key;
        break;
      }
      measure_at(found.key + 1, lower);
      found.above = shards_at;
      measure_at(found.key, lower);
      found.at_least = shards_at;
      if (found.key == low_key) {
        for (std::size_t s = 0; s < windows.size(); ++s) {
          found.at_least[s] = windows[s].answer().at_least;
        }
      }
      return true;
    }
    // What a lower bound reaches stays; what an upper bound misses goes.
    const auto reaches = std::partition_point(keys.begin(), keys.end(), [&](std::int32_t key) {
      return measure_at(key, lower) < target;
    });
    const auto possible = std::partition_point(keys.begin(), keys.end(), [&](std::int32_t key) {
      return measure_at(key, upper) < target;
    });
    if (possible != keys.begin()) high_key = *std::prev(possible) - 1;
    if (reaches != keys.end()) low_key = *reaches;
  }
}

// --- Tokens
// ---------------------------------------------------------------------------------------

bool MergedRow::draw_tokens() {
  if (words_.empty()) return true;
  if (survivors_weight_ == 0) {  // of blocks that were not right: every row has a survivor
    tokens_.assign(words_.size(), {});
    return true;
  }
  if (is_filtered() && left_key_ < order_key(low_)) {
    draw_known();
    return true;
  }
  std::vector<uint128_t> prefix;
  uint128_t before = 0;
  for (const Part& part : parts_) {
    uint128_t mass = 0;
    if (part.shard >= 0) {
      mass = survivors_[static_cast<std::size_t>(part.shard)].mass.value();
    } else {
      const CutTile& tile = cut_tiles_[part.cut_tile];
      for (std::size_t i = 0; i < tile.x.size(); ++i) {
        if (!survives(tile.x[i], part.begin + static_cast<std::int64_t>(i))) continue;
        mass += weight_in(tile, tile.x[i]);
      }
    }
    prefix.push_back(before += mass);
  }
  tokens_.resize(words_.size());
  DrawTokens question;
  std::vector<std::size_t> asked;
  for (std::size_t t = 0; t < words_.size(); ++t) {
    uint128_t place = multiply_high(words_[t], survivors_weight_);
    const auto found = std::upper_bound(prefix.begin(), prefix.end(), place);
    if (found == prefix.end()) continue;  // likewise: masses do not add up
    const Part& part = parts_[static_cast<std::size_t>(found - prefix.begin())];
    if (found != prefix.begin()) place -= *std::prev(found);
    if (part.shard >= 0) {
      question.places.push_back({part.shard, place});
      asked.push_back(t);
      continue;
    }
    const CutTile& tile = cut_tiles_[part.cut_tile];
    const std::int32_t at = place_in_cut_tile(tile, place);
    const auto i = static_cast<std::size_t>(at);
    tokens_[t] = {static_cast<std::int32_t>(tile.ids.begin) + at, tile.x[i], tile.raw[i]};
  }
  if (asked.empty()) return true;
  const Answers* answers = ask(question);
  if (answers == nullptr) return false;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto drawn = read_at<DrawnToken>(answers->of(question.places[i].shard), i);
    tokens_[asked[i]] = {drawn.id, std::bit_cast<float>(drawn.bits),
                         std::bit_cast<float>(drawn.raw_bits)};
  }
  return true;
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

std::int32_t MergedRow::place_in_cut_tile(const CutTile& tile, uint128_t place) const {
  for (std::size_t i = 0; i + 1 < tile.x.size(); ++i) {
    if (!survives(tile.x[i], tile.ids.begin + static_cast<std::int64_t>(i))) continue;
    const uint128_t weight = weight_in(tile, tile.x[i]);
    if (place < weight) return static_cast<std::int32_t>(i);
    place -= weight;
  }
  return static_cast<std::int32_t>(tile.x.size()) - 1;
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

bool MergedRow::count_ranks() {
  if (!rules_->ranks) return true;
  ranks_.assign(tokens_.size(), 0);
  CountInFront question;
  std::vector<std::size_t> asked;
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    const KnownToken& token = tokens_[t];
    if (known_rank(token, ranks_[t])) continue;
    const float value = rules_->reports_raw_values() ? token.raw : token.x;
    question.tokens.push_back(
        {std::bit_cast<std::uint32_t>(value), static_cast<std::int32_t>(end_of_equals(token))});
    asked.push_back(t);
  }
  if (asked.empty()) return true;
  const Answers* answers = ask(question);
  if (answers == nullptr) return false;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    for (int shard = 0; shard < shards(); ++shard) {
      ranks_[asked[i]] += read_at<std::int32_t>(answers->of(shard), i);
    }
  }
  return true;
}

}  // namespace fairdraw::sharded
