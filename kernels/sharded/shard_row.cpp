#include "sharded/shard_row.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <variant>

#include "common/arguments.h"
#include "common/float_order.h"
#include "common/processing_rules.h"
#include "cpu/thresholds/min_p_threshold.h"

namespace fairdraw::sharded {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr auto kTile = static_cast<std::size_t>(kTileSize);

template <class T>
void grow(std::vector<T>& values, std::size_t n) {
  if (values.size() < n) values.resize(n);
}

}  // namespace

ShardRow::ShardRow(const SampleRequest& request, const CallRules& rules, int shard,
                   std::int64_t row, const RowParameters& parameters, cpu::Worker& worker,
                   ShardBuffers& buffers)
    : request_(request),
      rules_(rules),
      shard_(shard),
      row_(row),
      worker_(worker),
      buffers_(buffers),
      all_(rules.partition.columns(shard)),
      whole_(rules.partition.whole_tiles(shard)),
      parameters_(parameters) {}

RowStatus ShardRow::read() {
  RowStatus status = check(parameters_);
  if (status == RowStatus::ok) status = check(parameters_of(request_.processing, row_));
  if (status != RowStatus::ok) return status;
  if (all_.empty()) return RowStatus::no_allowed_token;
  const std::uint32_t* allowed = request_.allowed.given()
                                     ? request_.allowed.data + row_ * request_.allowed.row_stride
                                     : nullptr;
  values_ = request_.processing.given()
                ? worker_.reader.read_processed(*worker_.passes, request_.logits, row_,
                                                request_.processing, row_, allowed, status,
                                                {all_.begin, rules_.partition.vocab()})
                : worker_.reader.read(*worker_.passes, request_.logits, row_, allowed,
                                      rules_.from_probs, status);
  return status;
}

const float* ShardRow::raw_values() {
  if (raw_ != nullptr) return raw_;
  raw_ = values_;
  if (rules_.processed && !all_.empty()) {
    RowStatus status = RowStatus::ok;
    raw_ = worker_.raw_reader.read(*worker_.passes, request_.logits, row_, nullptr,
                                   /*from_probs=*/false, status);
  }
  return raw_;
}

// --- The summary ---------------------------------------------------------------------------------

RowStatus ShardRow::index_whole(const cpu::WeightRule& rule, const float* x) {
  const auto tiles = static_cast<std::size_t>(tiles_of(whole_.size()));
  grow(buffers_.keys, tiles);
  grow(buffers_.sums, tiles);
  if (tiles == 0) return RowStatus::no_allowed_token;
  const cpu::RowInMemory row{x + whole_begin(), DType::float32, whole_.size(), nullptr};
  return worker_.tile_passes->index(row, rule, buffers_.keys.data(), buffers_.sums.data());
}

/// Returns the first fault of the shard's values, for which only the values of cut tiles are read a
/// second time.
RowStatus ShardRow::status_of_values(RowStatus of_whole) const {
  bool nan = of_whole == RowStatus::nan_input;
  bool negative = of_whole == RowStatus::negative_probability;
  float largest = -kInfinity;
  const auto see = [&](std::size_t begin, std::size_t size) {
    if (size == 0) return;
    const cpu::RowScan found = worker_.passes->scan(values_ + begin, size, nullptr);
    nan = nan || found.has_nan;
    largest = std::max(largest, found.max);
    negative = negative || (rules_.from_probs &&
                            worker_.passes->count_at_least(values_ + begin, size, 0.0F) != size);
  };
  see(0, whole_begin());
  see(whole_begin() + whole_size(), columns() - whole_begin() - whole_size());
  if (nan) return RowStatus::nan_input;
  if (of_whole == RowStatus::infinite_input || largest == kInfinity) {
    return RowStatus::infinite_input;
  }
  if (negative) return RowStatus::negative_probability;
  return of_whole == RowStatus::ok || largest >= rules_.smallest() ? RowStatus::ok
                                                                   : RowStatus::no_allowed_token;
}

std::int32_t ShardRow::largest_key() const {
  const auto tiles = static_cast<std::ptrdiff_t>(tiles_of(whole_.size()));
  const auto begin = buffers_.keys.begin();
  return tiles == 0 ? kEmptyTileKey : *std::max_element(begin, begin + tiles);
}

void ShardRow::sum_octaves(const cpu::WeightRule& rule, std::int32_t max_key,
                           OctaveSums& octaves) const {
  if (max_key == kEmptyTileKey) return;
  const double largest = cpu::octaves_by(rule, from_order_key(max_key)).whole;
  const auto tiles = static_cast<std::size_t>(tiles_of(whole_.size()));
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    if (buffers_.keys[tile] == kEmptyTileKey) continue;
    const double gap = largest - cpu::octaves_by(rule, from_order_key(buffers_.keys[tile])).whole;
    if (gap > static_cast<double>(kRowBits)) continue;
    Sum128& sum = octaves.sums[static_cast<std::size_t>(gap)];
    sum = sum.value() + buffers_.sums[tile];
  }
}

void ShardRow::write_cut_values(const float* x, std::byte* at) const {
  const std::size_t tail = whole_begin() + whole_size();
  std::copy_n(reinterpret_cast<const std::byte*>(x), whole_begin() * sizeof(float), at);
  std::copy_n(reinterpret_cast<const std::byte*>(x + tail), (columns() - tail) * sizeof(float),
              at + whole_begin() * sizeof(float));
}

void ShardRow::write_summary(std::byte* part) {
  RowSummary summary;
  summary.max_key = summary.left_key = kEmptyTileKey;
  RowStatus status = read();
  if (status == RowStatus::ok) {
    const cpu::WeightRule rule = rules_.weight_rule(parameters_.temperature);
    status = status_of_values(index_whole(rule, values_));
    if (status == RowStatus::ok) {
      summary.max_key = largest_key();
      sum_octaves(rule, summary.max_key, summary.octaves);
    }
  }
  // Even a shard without an allowed token sends the values of its cut tiles, which are all -inf or
  // 0.
  summary.status = static_cast<std::int32_t>(status);
  if (status == RowStatus::ok || status == RowStatus::no_allowed_token) {
    if (values_ != nullptr) write_cut_values(values_, part + rules_.layout.cut_at());
    if (summary.max_key != kEmptyTileKey) write_candidates(part, summary);
    if (rules_.layout.raw_summary && values_ != nullptr) write_raw(part);
    if (rules_.layout.raw_summary && values_ == nullptr) {
      RawSummary none;
      none.max_key = kEmptyTileKey;
      write_at(part + rules_.layout.raw_at(), none);
    }
  }
  write_at(part, summary);
}

/// Lists the n largest values of the whole tiles in buffers_.values, and their ids in buffers_.ids,
/// counted from the first whole tile; returns the number of listed values.
std::size_t ShardRow::list_largest(const float* x, std::size_t n) {
  grow(buffers_.ids, n);
  grow(buffers_.values, n);
  worker_.logprobs.begin(worker_.logprobs.scan(x + whole_begin(), whole_size()),
                         LogprobsMode::raw_logits, RankRule::position, 1.0F, 0.0);
  worker_.logprobs.write_top(static_cast<std::int32_t>(n), buffers_.ids.data(),
                             buffers_.values.data());
  return static_cast<std::size_t>(
      std::find(buffers_.ids.begin(), buffers_.ids.begin() + static_cast<std::ptrdiff_t>(n), -1) -
      buffers_.ids.begin());
}

void ShardRow::write_candidates(std::byte* part, RowSummary& summary) {
  const float* x = whole_values();
  const float max = from_order_key(summary.max_key);
  const SummaryLayout& layout = rules_.layout;
  const float* raw = layout.raw_bits ? raw_values() + whole_begin() : x;
  const auto first = static_cast<std::size_t>(std::find(x, x + whole_size(), max) - x);
  summary.max_id = static_cast<std::int32_t>(whole_.begin) + static_cast<std::int32_t>(first);
  summary.max_bits = std::bit_cast<std::uint32_t>(x[first]);
  summary.max_raw_bits = std::bit_cast<std::uint32_t>(raw[first]);
  summary.allowed = static_cast<std::uint32_t>(
      worker_.passes->count_at_least(x, whole_size(), rules_.smallest()));
  summary.left_key = summary.max_key;
  const auto wanted = static_cast<std::size_t>(
      candidates_of_row(rules_.filters(parameters_), parameters_.top_k, rules_.partition.vocab(),
                        static_cast<int>(layout.candidates), static_cast<int>(layout.reported)));
  if (wanted == 0) return;

  std::size_t found = list_largest(values_, wanted + 1);
  while (found > 0 && buffers_.values[found - 1] < rules_.smallest()) --found;
  std::size_t listed = std::min(found, wanted);
  summary.left_key = found > listed ? order_key(buffers_.values[listed]) : kEmptyTileKey;
  if (parameters_.min_p > 0.0F && layout.reported == 0) {
    // A value that min_p drops relative to the shard's maximum is also dropped in the row, whose
    // maximum is at least as large.
    const cpu::WeightRule rule = rules_.weight_rule(parameters_.temperature);
    const std::int32_t low =
        std::max(kEmptyTileKey + 1, order_key(cpu::min_p_threshold(parameters_.min_p, max, rule)));
    while (listed > 0 && order_key(buffers_.values[listed - 1]) < low) --listed;
    summary.left_key = std::max(summary.left_key, low - 1);
  }
  summary.listed = static_cast<std::uint32_t>(listed);
  for (std::size_t i = 0; i < listed; ++i) {
    std::byte* at = part + layout.candidates_at() + i * layout.candidate_bytes();
    const std::int32_t place = buffers_.ids[i];
    write_at(at, Candidate{std::bit_cast<std::uint32_t>(buffers_.values[i]),
                           static_cast<std::int32_t>(whole_.begin) + place});
    if (layout.raw_bits) write_at(at + sizeof(Candidate), raw[place]);
  }
}

void ShardRow::write_raw(std::byte* part) {
  const SummaryLayout& layout = rules_.layout;
  const float* raw = raw_values();
  RawSummary summary;
  const cpu::WeightRule rule{false, logit_scale(1.0F)};
  index_whole(rule, raw);
  summary.max_key = largest_key();
  sum_octaves(rule, summary.max_key, summary.octaves);
  if (layout.raw_cut_values) write_cut_values(raw, part + layout.raw_cut_at());
  if (layout.raw_candidates > 0 && summary.max_key != kEmptyTileKey) {
    summary.listed = static_cast<std::uint32_t>(list_largest(raw, layout.raw_candidates));
    for (std::size_t i = 0; i < summary.listed; ++i) {
      write_at(part + layout.raw_candidates_at(),
               Candidate{std::bit_cast<std::uint32_t>(buffers_.values[i]),
                         static_cast<std::int32_t>(whole_.begin) + buffers_.ids[i]},
               i);
    }
  }
  write_at(part + layout.raw_at(), summary);
}

// --- Answers -------------------------------------------------------------------------------------

void ShardRow::answer(const MergedRow& row, std::byte* part) {
  if (read() != RowStatus::ok) return;  // the status is not ok only if the shard has no columns
  const Question& question = row.question();
  if (const auto* gather = std::get_if<GatherRow>(&question)) {
    std::memcpy(part, values_, columns() * sizeof(float));
    if (gather->raw) {
      std::memcpy(part + gather->columns * sizeof(float), raw_values(), columns() * sizeof(float));
    }
  } else if (const auto* draws = std::get_if<DrawTokens>(&question)) {
    answer_draws(row, *draws, part);
  } else if (const auto* sums = std::get_if<SumAbove>(&question)) {
    answer_sums(row, *sums, part);
  } else if (const auto* counts = std::get_if<CountInFront>(&question)) {
    answer_counts(*counts, part);
  }
}

/// Returns the number of ids below `id` among the n ids from `first` on.
std::size_t ShardRow::ids_in_front(std::int64_t id, std::int64_t first, std::size_t n) const {
  return static_cast<std::size_t>(
      std::clamp(id - first, std::int64_t{0}, static_cast<std::int64_t>(n)));
}

/// Returns the shift of the weights of a whole tile into the row's unit. Precondition: the tile has
/// an allowed value.
int ShardRow::shift_of(const MergedRow& row, std::size_t tile) const {
  const float maximum = from_order_key(buffers_.keys[tile]);
  return row_shift(row.octave(), cpu::octaves_by(row.rule(), maximum).whole);
}

/// Returns the token at the position `rest` in the weights of a whole tile.
TokenAttempt ShardRow::draw(const MergedRow& row, std::size_t tile, std::uint64_t rest) {
  const std::size_t begin = tile * kTile;
  const float* x = whole_values() + begin;
  std::uint64_t weights[kTile + cpu::kTileSlack];
  worker_.tile_passes->weigh(x, std::min(kTile, whole_size() - begin), row.rule(),
                             from_order_key(buffers_.keys[tile]), rules_.smallest(), weights);
  std::size_t place = 0;
  for (; weights[place] <= rest; ++place) rest -= weights[place];
  const std::int64_t id = whole_.begin + static_cast<std::int64_t>(begin + place);
  const float raw = rules_.layout.raw_bits ? raw_values()[id - all_.begin] : x[place];
  return {0, static_cast<std::int32_t>(id), std::bit_cast<std::uint32_t>(x[place]),
          std::bit_cast<std::uint32_t>(raw)};
}

void ShardRow::answer_draws(const MergedRow& row, const DrawTokens& question, std::byte* part) {
  index_whole(row.rule(), values_);
  std::vector<uint128_t> prefix;
  uint128_t before = 0;
  for (std::size_t tile = 0; tile < static_cast<std::size_t>(tiles_of(whole_.size())); ++tile) {
    if (buffers_.keys[tile] != kEmptyTileKey) {
      before += row_weight(buffers_.sums[tile], shift_of(row, tile));
    }
    prefix.push_back(before);
  }
  for (std::size_t i = 0; i < question.draws.size(); ++i) {
    const DrawTokens::Draw& asked = question.draws[i];
    std::int32_t before_key = row.rejected_below() - 1;
    std::uint32_t listed = 0;
    for (std::uint32_t attempt = 0;
         attempt < asked.attempts && listed < question.listed && before_key < row.accepted_from();
         ++attempt) {
      const std::optional<uint128_t> place = row.place_in_shard(asked.token, attempt, shard_);
      if (!place) continue;
      const auto found = std::upper_bound(prefix.begin(), prefix.end(), *place);
      if (found == prefix.end()) continue;  // only invalid blocks can lead here
      const uint128_t in_front = found == prefix.begin() ? uint128_t{0} : *std::prev(found);
      const auto tile = static_cast<std::size_t>(found - prefix.begin());
      // The position is below the sum of the tile, so 64 bits suffice.
      const auto rest = static_cast<std::uint64_t>((*place - in_front) >> shift_of(row, tile));
      TokenAttempt drawn = draw(row, tile, rest);
      const std::int32_t key = order_key(std::bit_cast<float>(drawn.bits));
      if (key <= before_key) continue;
      before_key = key;
      drawn.attempts = attempt + 1;
      write_at(part, drawn, i * question.listed + listed++);
    }
  }
}

void ShardRow::answer_sums(const MergedRow& row, const SumAbove& question, std::byte* part) {
  index_whole(row.rule(), values_);
  const std::int32_t least = *std::min_element(question.keys.begin(), question.keys.end());
  std::vector<uint128_t> above(question.keys.size());
  for (std::size_t tile = 0; tile < static_cast<std::size_t>(tiles_of(whole_.size())); ++tile) {
    if (buffers_.keys[tile] <= least) continue;
    const std::size_t begin = tile * kTile, size = std::min(kTile, whole_size() - begin);
    const float* x = whole_values() + begin;
    std::uint64_t weights[kTile + cpu::kTileSlack];
    worker_.tile_passes->weigh(x, size, row.rule(), from_order_key(buffers_.keys[tile]),
                               rules_.smallest(), weights);
    for (std::size_t i = 0; i < above.size(); ++i) {
      if (buffers_.keys[tile] <= question.keys[i]) continue;
      std::uint64_t sum = 0;
      for (std::size_t j = 0; j < size; ++j) {
        sum += order_key(x[j]) > question.keys[i] ? weights[j] : 0;
      }
      above[i] += row_weight(sum, shift_of(row, tile));
    }
  }
  const auto add_cut = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t id = begin; id < end; ++id) {
      const float x = values_[id - all_.begin];
      const std::int32_t key = order_key(x), largest = row.cut_tile_of(id).key;
      // A key above `largest` comes from an invalid block.
      if (key <= least || key > largest) continue;
      const double octave = cpu::octaves_by(row.rule(), from_order_key(largest)).whole;
      const uint128_t weight = row_weight(tile_weight(cpu::octaves_by(row.rule(), x), octave),
                                          row_shift(row.octave(), octave));
      for (std::size_t i = 0; i < above.size(); ++i) {
        if (key > question.keys[i]) above[i] += weight;
      }
    }
  };
  add_cut(all_.begin, whole_.begin);
  add_cut(whole_.end, all_.end);
  for (std::size_t i = 0; i < above.size(); ++i) write_at(part, Sum128(above[i]), i);
}

void ShardRow::answer_counts(const CountInFront& question, std::byte* part) {
  const float* x = rules_.reports_raw_values() ? raw_values() : values_;
  const std::size_t n = columns();
  for (std::size_t i = 0; i < question.tokens.size(); ++i) {
    const auto value = std::bit_cast<float>(question.tokens[i].bits);
    const std::size_t tied = ids_in_front(question.tokens[i].end, all_.begin, n);
    const std::size_t count = worker_.passes->count_at_least(x, tied, value) +
                              worker_.passes->count_at_least(x + tied, n - tied, next_above(value));
    write_at(part, static_cast<std::int32_t>(count), i);
  }
}

}  // namespace fairdraw::sharded
