// Merges the summaries of all shards for one row (merged_row.h).
#include "sharded/merged_row.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <variant>

#include "common/float_order.h"

namespace fairdraw::sharded {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns the place of a status in the order of precedence of faults of values, lists and bans.
int precedence(RowStatus status) {
  switch (status) {
    case RowStatus::ok:
      return 1000;
    case RowStatus::no_allowed_token:
      // A shard may have this status, but the row has it only if no shard has an allowed token.
      return 999;
    default:
      return static_cast<int>(status);  // the statuses are numbered in the order of precedence:
                                        // NaN, +inf, negative, lists, overflow
  }
}

/// Reads the candidates in a shard's list, or the values of its cut tiles.
template <class T>
std::vector<T> read_list(const std::byte* at, std::size_t n) {
  std::vector<T> values(n);
  if (n > 0) std::memcpy(values.data(), at, n * sizeof(T));
  return values;
}

}  // namespace

void MergedRow::merge(const CallRules& rules, const RowParameters& parameters,
                      const std::vector<const std::byte*>& summaries,
                      std::vector<TokenWords> words) {
  rules_ = &rules;
  parameters_ = parameters;
  words_ = std::move(words);
  merge_status(summaries);
  if (status_ != RowStatus::ok) return;
  rule_ = rules.weight_rule(parameters.temperature);
  greedy_ = rules.is_greedy(parameters);

  std::vector<RowSummary> heads;
  heads.reserve(summaries.size());
  for (const std::byte* summary : summaries) heads.push_back(read_at<RowSummary>(summary));
  assemble_cut_tiles(summaries);
  merge_maximum(heads);
  merge_totals(heads);
  order_parts();
  list_known(summaries, heads);
  if (is_filtered()) weigh_known();
  if (rules.layout.raw_summary) merge_raw(summaries);
  decide();
}

/// Finds the first fault among the statuses of all shards. The status of the row is
/// no_allowed_token only if no shard has an allowed token.
void MergedRow::merge_status(const std::vector<const std::byte*>& summaries) {
  RowStatus worst = RowStatus::ok;
  bool any_allowed = false;
  for (const std::byte* summary : summaries) {
    const auto status = static_cast<RowStatus>(read_at<RowSummary>(summary).status);
    if (status == RowStatus::ok) any_allowed = true;
    if (precedence(status) < precedence(worst)) worst = status;
  }
  status_ = worst == RowStatus::no_allowed_token && any_allowed ? RowStatus::ok : worst;
}

/// Joins the values of cut tiles; each shard has sent the values of its head, followed by the
/// values of its tail. A cut tile is not among the whole tiles of any shard.
void MergedRow::assemble_cut_tiles(const std::vector<const std::byte*>& summaries) {
  cut_tiles_.clear();
  const Partition& partition = rules_->partition;
  const SummaryLayout& layout = rules_->layout;
  const auto add = [this](Ids ids, const float* x, const float* raw) {
    if (ids.empty()) return;
    if (cut_tiles_.empty() || ids.begin / kTileSize != cut_tiles_.back().ids.begin / kTileSize) {
      cut_tiles_.push_back({{ids.begin, ids.begin}, {}, {}});
    }
    CutTile& tile = cut_tiles_.back();
    tile.ids.end = ids.end;
    tile.x.insert(tile.x.end(), x, x + ids.size());
    tile.raw.insert(tile.raw.end(), raw, raw + ids.size());
  };
  for (int shard = 0; shard < partition.shards(); ++shard) {
    const std::byte* summary = summaries[static_cast<std::size_t>(shard)];
    const auto size = static_cast<std::size_t>(partition.cut_values(shard));
    const auto x = read_list<float>(summary + layout.cut_at(), size);
    const auto raw =
        layout.raw_cut_values ? read_list<float>(summary + layout.raw_cut_at(), size) : x;
    const Ids head = partition.head(shard);
    add(head, x.data(), raw.data());
    add(partition.tail(shard), x.data() + head.size(), raw.data() + head.size());
  }
  for (CutTile& tile : cut_tiles_) {
    const cpu::RowInMemory row{tile.x.data(), DType::float32, tile.ids.size(), nullptr};
    rules_->tile_passes->index(row, rule_, &tile.key, &tile.sum);
  }
}

void MergedRow::merge_maximum(const std::vector<RowSummary>& summaries) {
  std::int32_t key = kEmptyTileKey;
  for (const RowSummary& summary : summaries) key = std::max(key, summary.max_key);
  for (const CutTile& tile : cut_tiles_) key = std::max(key, tile.key);
  max_ = from_order_key(key);
  octave_ = cpu::octaves_by(rule_, max_).whole;

  first_at_max_ = {};
  const auto see = [this](std::int32_t id, float x, float raw) {
    if (first_at_max_.id < 0 || id < first_at_max_.id) first_at_max_ = {id, x, raw};
  };
  for (const RowSummary& summary : summaries) {
    if (summary.max_key != key) continue;
    see(summary.max_id, std::bit_cast<float>(summary.max_bits),
        std::bit_cast<float>(summary.max_raw_bits));
  }
  for (const CutTile& tile : cut_tiles_) {
    if (tile.key != key) continue;
    const auto at =
        static_cast<std::size_t>(std::find(tile.x.begin(), tile.x.end(), max_) - tile.x.begin());
    see(static_cast<std::int32_t>(tile.ids.begin) + static_cast<std::int32_t>(at), tile.x[at],
        tile.raw[at]);
  }
}

namespace {

/// Returns the weight of a shard's whole tiles in a row whose octave is `row_octave`.
uint128_t weight_of(const OctaveSums& octaves, double shard_octave, double row_octave) {
  uint128_t weight = 0;
  for (int gap = 0; gap < kOctaveSums; ++gap) {
    const int shift = row_shift(row_octave, shard_octave - static_cast<double>(gap));
    if (shift >= 0) weight += octaves.sums[gap].value() << shift;
  }
  return weight;
}

}  // namespace

void MergedRow::merge_totals(const std::vector<RowSummary>& summaries) {
  whole_.clear();
  unfiltered_weight_ = 0;
  for (const RowSummary& summary : summaries) {
    Measure measure;
    if (summary.max_key != kEmptyTileKey) {
      const double octave = cpu::octaves_by(rule_, from_order_key(summary.max_key)).whole;
      measure = {summary.allowed, weight_of(summary.octaves, octave, octave_)};
    }
    whole_.push_back(measure);
    unfiltered_weight_ += measure.mass;
  }
  for (CutTile& tile : cut_tiles_) {
    tile.shift = -1;
    if (tile.key == kEmptyTileKey) continue;
    tile.shift = row_shift(octave_, cpu::octaves_by(rule_, from_order_key(tile.key)).whole);
    unfiltered_weight_ += row_weight(tile.sum, tile.shift);
  }
}

/// Adds up the masses of the caller's row at temperature 1.
void MergedRow::merge_raw(const std::vector<const std::byte*>& summaries) {
  const cpu::WeightRule rule{false, logit_scale(1.0F)};
  std::vector<RawSummary> raws;
  std::int32_t key = kEmptyTileKey;
  for (const std::byte* summary : summaries) {
    raws.push_back(read_at<RawSummary>(summary + rules_->layout.raw_at()));
    key = std::max(key, raws.back().max_key);
  }
  struct Sum {
    std::int32_t key;
    std::uint64_t sum;
  };
  std::vector<Sum> cut;
  for (const CutTile& tile : cut_tiles_) {
    Sum sum{};
    const cpu::RowInMemory row{tile.raw.data(), DType::float32, tile.ids.size(), nullptr};
    rules_->tile_passes->index(row, rule, &sum.key, &sum.sum);
    key = std::max(key, sum.key);
    cut.push_back(sum);
  }
  raw_max_ = from_order_key(key);
  const double octave = cpu::octaves_by(rule, raw_max_).whole;
  raw_weight_ = 0;
  for (const RawSummary& raw : raws) {
    if (raw.max_key == kEmptyTileKey) continue;
    const double shard_octave = cpu::octaves_by(rule, from_order_key(raw.max_key)).whole;
    raw_weight_ += weight_of(raw.octaves, shard_octave, octave);
  }
  for (const Sum& sum : cut) {
    if (sum.key == kEmptyTileKey) continue;
    const double tile_octave = cpu::octaves_by(rule, from_order_key(sum.key)).whole;
    raw_weight_ += row_weight(sum.sum, row_shift(octave, tile_octave));
  }
  raw_known_ = raw_candidates(summaries);
}

namespace {

bool comes_first(float x, std::int32_t id, float other, std::int32_t other_id) {
  return x > other || (x == other && id < other_id);
}

}  // namespace

/// Returns the largest of the caller's logits in order, if these may differ from the filtered
/// values.
std::vector<KnownToken> MergedRow::raw_candidates(
    const std::vector<const std::byte*>& summaries) const {
  std::vector<KnownToken> known;
  const SummaryLayout& layout = rules_->layout;
  if (layout.raw_candidates == 0) return known;
  for (const std::byte* summary : summaries) {
    const auto listed = read_at<RawSummary>(summary + layout.raw_at()).listed;
    for (const Candidate& candidate :
         read_list<Candidate>(summary + layout.raw_candidates_at(), listed)) {
      const auto x = std::bit_cast<float>(candidate.bits);
      known.push_back({candidate.id, x, x});
    }
  }
  for (const CutTile& tile : cut_tiles_) {
    for (std::size_t i = 0; i < tile.raw.size(); ++i) {
      if (tile.raw[i] == -kInfinity) continue;
      known.push_back({static_cast<std::int32_t>(tile.ids.begin) + static_cast<std::int32_t>(i),
                       tile.raw[i], tile.raw[i]});
    }
  }
  std::sort(known.begin(), known.end(), [](const KnownToken& a, const KnownToken& b) {
    return comes_first(a.x, a.id, b.x, b.id);
  });
  return known;
}

/// Lists all candidates and all values of cut tiles, and finds the certificate.
void MergedRow::list_known(const std::vector<const std::byte*>& summaries,
                           const std::vector<RowSummary>& heads) {
  known_.clear();
  left_key_ = kEmptyTileKey;
  for (const RowSummary& head : heads) left_key_ = std::max(left_key_, head.left_key);
  const SummaryLayout& layout = rules_->layout;
  if (layout.candidates == 0) return;
  for (int shard = 0; shard < shards(); ++shard) {
    const auto s = static_cast<std::size_t>(shard);
    const std::byte* list = summaries[s] + layout.candidates_at();
    for (std::size_t i = 0; i < heads[s].listed; ++i) {
      const std::byte* at = list + i * layout.candidate_bytes();
      const auto candidate = read_at<Candidate>(at);
      const auto x = std::bit_cast<float>(candidate.bits);
      const float raw = layout.raw_bits ? read_at<float>(at + sizeof(Candidate)) : x;
      known_.push_back({x, raw, candidate.id, order_key(x), 0});
    }
  }
  for (const CutTile& tile : cut_tiles_) {
    for (std::size_t i = 0; i < tile.x.size(); ++i) {
      const float x = tile.x[i];
      if (x < rules_->smallest()) continue;
      known_.push_back({x, tile.raw[i],
                        static_cast<std::int32_t>(tile.ids.begin) + static_cast<std::int32_t>(i),
                        order_key(x), 0});
    }
  }
}

/// Lists all values of the row, from the columns of each shard.
void MergedRow::know_all(const std::vector<const std::byte*>& columns) {
  is_gathered_ = true;
  known_.clear();
  known_.reserve(static_cast<std::size_t>(rules_->partition.vocab()));
  left_key_ = kEmptyTileKey;
  const std::size_t room = rules_->layout.row_columns;
  for (int shard = 0; shard < shards(); ++shard) {
    const std::byte* values = columns[static_cast<std::size_t>(shard)];
    const std::byte* raws = rules_->layout.raw_bits ? values + room * sizeof(float) : values;
    const Ids ids = rules_->partition.columns(shard);
    for (std::int64_t id = ids.begin; id < ids.end; ++id) {
      const auto at = static_cast<std::size_t>(id - ids.begin);
      const auto x = read_at<float>(values, at);
      if (x < rules_->smallest()) continue;
      known_.push_back(
          {x, read_at<float>(raws, at), static_cast<std::int32_t>(id), order_key(x), 0});
    }
  }
  weigh_known();
}

/// Weighs known values. If the list of a shard contains a value of a tile, the list also contains
/// the tile's largest value.
void MergedRow::weigh_known() {
  std::sort(known_.begin(), known_.end(),
            [](const KnownValue& a, const KnownValue& b) { return a.id < b.id; });
  for (std::size_t begin = 0, end = 0; begin < known_.size(); begin = end) {
    float largest = known_[begin].x;
    const std::int32_t tile = known_[begin].id / kTileSize;
    for (end = begin; end < known_.size() && known_[end].id / kTileSize == tile; ++end) {
      largest = std::max(largest, known_[end].x);
    }
    const double octave = cpu::octaves_by(rule_, largest).whole;
    const int shift = row_shift(octave_, octave);
    for (std::size_t i = begin; i < end; ++i) {
      known_[i].weight =
          row_weight(tile_weight(cpu::octaves_by(rule_, known_[i].x), octave), shift);
    }
  }
  std::sort(known_.begin(), known_.end(), [](const KnownValue& a, const KnownValue& b) {
    return comes_first(a.x, a.id, b.x, b.id);
  });
}

/// Orders the whole tiles of the shards, and the cut tiles, by their first ids.
void MergedRow::order_parts() {
  parts_.clear();
  for (int shard = 0; shard < shards(); ++shard) {
    const Ids whole = rules_->partition.whole_tiles(shard);
    if (!whole.empty()) {
      parts_.push_back({whole.begin, shard, 0, whole_[static_cast<std::size_t>(shard)].mass});
    }
  }
  for (std::size_t i = 0; i < cut_tiles_.size(); ++i) {
    const CutTile& tile = cut_tiles_[i];
    const bool weighs = tile.key != kEmptyTileKey;
    parts_.push_back(
        {tile.ids.begin, -1, i, weighs ? row_weight(tile.sum, tile.shift) : uint128_t{0}});
  }
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < parts_.size(); ++i) parts_[i].end += parts_[i - 1].end;
}

std::vector<KnownToken> MergedRow::largest(std::size_t n) const {
  std::vector<KnownToken> tokens;
  if (rules_->reports_raw_values()) {
    tokens.assign(raw_known_.begin(),
                  raw_known_.begin() + static_cast<std::ptrdiff_t>(std::min(n, raw_known_.size())));
    return tokens;
  }
  const bool of_survivors = !is_raw(rules_->mode);
  if (greedy_ && of_survivors) return {first_at_max_};
  std::vector<KnownValue> known = known_;
  std::sort(known.begin(), known.end(), [](const KnownValue& a, const KnownValue& b) {
    return comes_first(a.x, a.id, b.x, b.id);
  });
  for (const KnownValue& value : known) {
    if (tokens.size() == n || (of_survivors && !survives(value.x, value.id))) break;
    tokens.push_back({value.id, value.x, value.raw});
  }
  return tokens;
}

MergedRow::TileMaximum MergedRow::cut_tile_of(std::int64_t id) const {
  for (const CutTile& tile : cut_tiles_) {
    if (tile.ids.holds(id)) return {tile.ids.begin, tile.key};
  }
  return {};
}

// --- Questions -----------------------------------------------------------------------------------

void MergedRow::take(const std::vector<const std::byte*>& answers) {
  const Question answered = std::exchange(question_, std::monostate{});
  if (std::holds_alternative<GatherRow>(answered)) {
    know_all(answers);
    decide();
    // From here on, only the reported values are read, and many rows may be kept in memory.
    known_.resize(std::min(known_.size(), rules_->layout.reported));
    known_.shrink_to_fit();
  } else if (const auto* draws = std::get_if<DrawTokens>(&answered)) {
    take_tokens(*draws, answers);
    if (std::holds_alternative<std::monostate>(question_)) count_ranks();
  } else if (const auto* sums = std::get_if<SumAbove>(&answered)) {
    take_sums(*sums, answers);
    if (std::holds_alternative<std::monostate>(question_)) count_ranks();
  } else if (const auto* counts = std::get_if<CountInFront>(&answered)) {
    take_ranks(*counts, answers);
  }
}

}  // namespace fairdraw::sharded
