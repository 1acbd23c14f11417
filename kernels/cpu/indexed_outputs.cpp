// Outputs of a filtered row: draws, masks, probabilities and log-probabilities (indexed_row.h).
#include <algorithm>
#include <bit>

#include "common/log_mass.h"
#include "common/wide_integers.h"
#include "cpu/distribution_weights.h"
#include "cpu/indexed_row.h"
#include "cpu/row_mass.h"

namespace fairdraw::cpu {

std::int32_t IndexedRow::draw(std::uint64_t word) {
  return greedy_token_ >= 0 ? greedy_token_ : row_.survivors.draw(row_.index, row_.list, word);
}

uint128_t IndexedRow::unfiltered_weight() { return row_.index.total(); }

uint128_t IndexedRow::survivors_weight() { return row_.survivors.weight(row_.index, row_.list); }

bool IndexedRow::keeps(std::int32_t token) const {
  if (greedy_token_ >= 0) return token == greedy_token_;
  return row_.survivors.keeps(row_.index, static_cast<std::size_t>(token));
}

std::int64_t IndexedRow::support_size() const {
  if (greedy_token_ >= 0) return 1;
  return static_cast<std::int64_t>(row_.survivors.count(row_.index, row_.list));
}

void IndexedRow::write_mask(std::uint32_t* words) {
  RowIndex& index = row_.index;
  const float low = row_.survivors.low();
  if (greedy_token_ >= 0) {
    std::fill_n(words, (index.size + 31) / 32, 0U);
    words[greedy_token_ / 32] = 1U << (greedy_token_ % 32);
    return;
  }
  index.for_each_tile(low, [&](std::size_t tile, bool reaches) {
    const std::size_t length = index.tile_length(tile);
    std::uint32_t* out = words + tile * (kTile / 32);
    if (reaches) {
      index.passes->mask_bits(index.x + tile * kTile, length, low, out);
    } else {
      std::fill_n(out, (length + 31) / 32, 0U);
    }
  });
  for (std::size_t i = row_.survivors.tie_end(); i < index.size; ++i) {
    if (index.x[i] == low) words[i / 32] &= ~(1U << (i % 32));
  }
}

void IndexedRow::list_survivors(std::vector<std::int32_t>& ids) {
  if (!has_survivors_) find_survivors();
  ids.clear();
  if (greedy_token_ >= 0) {
    ids.push_back(greedy_token_);
    return;
  }
  const std::size_t words = (row_.index.size + 31) / 32;
  grow(mask_, words);
  write_mask(mask_.data());
  for (std::size_t word = 0; word < words; ++word) {
    for (std::uint32_t rest = mask_[word]; rest != 0; rest &= rest - 1) {
      ids.push_back(static_cast<std::int32_t>(word * 32) + std::countr_zero(rest));
    }
  }
}

void IndexedRow::write_probabilities(float* probabilities) {
  RowIndex& index = row_.index;
  const float low = row_.survivors.low();
  if (greedy_token_ >= 0) {
    std::fill_n(probabilities, index.size, 0.0F);
    probabilities[greedy_token_] = 1.0F;
    return;
  }
  const double total = nearest_double(survivors_weight());
  index.for_each_tile(low, [&](std::size_t tile, bool reaches) {
    const std::size_t begin = tile * kTile;
    const std::size_t length = index.tile_length(tile);
    if (reaches) {
      index.bracket_passes->probabilities(index.x + begin, length, index.rule, index.max, low,
                                          total, probabilities + begin);
    } else {
      std::fill_n(probabilities + begin, length, 0.0F);
    }
  });
  for (std::size_t i = row_.survivors.tie_end(); i < index.size; ++i) {
    if (index.x[i] == low) probabilities[i] = 0.0F;
  }
}

std::uint64_t IndexedRow::write_weights(std::uint64_t* weights) const {
  const RowIndex& index = row_.index;
  return write_weights_of(*index.tile_passes, index.x, index.size, index.rule, index.max,
                          row_.survivors.low(), row_.survivors.tie_end(), weights);
}

// --- Log-probabilities ---------------------------------------------------------------------------

float IndexedRow::logprob(std::int32_t token) {
  return static_cast<float>(
      log_probability(row_.index.x[token], row_.index.max, temperature_, unfiltered_log_mass()));
}

float IndexedRow::logprob_filtered(std::int32_t token) {
  return static_cast<float>(
      log_probability(row_.index.x[token], row_.index.max, temperature_, survivors_log_mass()));
}

double IndexedRow::unfiltered_log_mass() {
  return log_mass_of(unfiltered_weight(), row_.index.max, row_.index.rule.scale);
}

double IndexedRow::survivors_log_mass() {
  return greedy_token_ >= 0
             ? 0.0
             : log_mass_of(survivors_weight(), row_.index.max, row_.index.rule.scale);
}

ScannedRow IndexedRow::unfiltered_row() {
  RowIndex& index = row_.index;
  index.need_groups();
  ScannedRow row;
  row.x = index.x;
  row.n = index.size;
  row.group_max = index.group_max.data();
  row.max = index.max;
  row.low = index.smallest_allowed();
  row.tie_end = index.size;
  if (row_.survivors.on_list()) {
    row.list = row_.list.values();
    row.list_size = row_.list.size();
    row.list_low = row_.survivors.list_low();
  }
  return row;
}

ScannedRow IndexedRow::survivors_row() {
  ScannedRow row = unfiltered_row();
  const bool greedy = greedy_token_ >= 0;
  row.low = greedy ? row.max : row_.survivors.low();
  row.tie_end = greedy ? static_cast<std::size_t>(greedy_token_) + 1 : row_.survivors.tie_end();
  return row;
}

}  // namespace fairdraw::cpu
