// Results of a shard's own columns (shard_row.h).
#include <algorithm>

#include "common/arguments.h"
#include "common/float_order.h"
#include "common/wide_integers.h"
#include "sharded/shard_row.h"

namespace fairdraw::sharded {

/// Writes the mask. This includes greedy rows: their threshold is the maximum, whose ties end at
/// the token.
void ShardRow::write_mask(const MergedRow& row, std::uint32_t* words) {
  const std::size_t n = columns();
  worker_.passes->mask_bits(values_, n, row.low(), words);
  for (std::size_t i = ids_in_front(row.tie_end()); i < n; ++i) {
    if (values_[i] == row.low()) words[i / 32] &= ~(1U << (i % 32));
  }
}

void ShardRow::write_probabilities(const MergedRow& row, float* probabilities) {
  const std::size_t n = columns();
  std::fill_n(probabilities, n, 0.0F);
  if (row.is_greedy_row()) {
    const std::int64_t token = row.tie_end() - 1;
    if (all_.holds(token)) probabilities[token - all_.begin] = 1.0F;
    return;
  }
  index_whole(row.rule(), values_);
  const double total = nearest_double(row.survivors_weight());
  const cpu::BracketPasses& passes = cpu::bracket_passes_for(rules_.target);
  for (std::int64_t id = all_.begin; id < all_.end;) {
    const std::int64_t end = std::min((id / kTileSize + 1) * kTileSize, all_.end);
    const std::int32_t key =
        whole_.holds(id) ? buffers_.keys[static_cast<std::size_t>((id - whole_.begin) / kTileSize)]
                         : row.cut_tile_of(id).key;
    if (key != kEmptyTileKey && key >= order_key(row.low())) {
      const float maximum = from_order_key(key);
      const int shift = row_shift(row.octave(), cpu::octaves_by(row.rule(), maximum).whole);
      const auto at = static_cast<std::size_t>(id - all_.begin);
      if (shift >= 0) {
        passes.probabilities(values_ + at, static_cast<std::size_t>(end - id), row.rule(), maximum,
                             row.low(), shift, total, probabilities + at);
      }
    }
    id = end;
  }
  for (std::size_t i = ids_in_front(row.tie_end()); i < n; ++i) {
    if (values_[i] == row.low()) probabilities[i] = 0.0F;
  }
}

}  // namespace fairdraw::sharded
