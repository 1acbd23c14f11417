// Writes the results for a shard's own columns (shard_row.h).
#include <algorithm>

#include "common/arguments.h"
#include "common/wide_integers.h"
#include "sharded/shard_row.h"

namespace fairdraw::sharded {

/// Writes the mask. The function also serves greedy rows: their threshold is the maximum, whose
/// ties end at the token.
void ShardRow::write_mask(const MergedRow& row, std::uint32_t* words) {
  const std::size_t n = columns();
  worker_.passes->mask_bits(values_, n, row.low(), words);
  for (std::size_t i = ids_in_front(row.tie_end()); i < n; ++i) {
    if (values_[i] == row.low()) words[i / 32] &= ~(1U << (i % 32));
  }
}

void ShardRow::write_probabilities(const MergedRow& row, float* probabilities) {
  const std::size_t n = columns();
  if (row.is_greedy_row()) {
    std::fill_n(probabilities, n, 0.0F);
    const std::int64_t token = row.tie_end() - 1;
    if (all_.holds(token)) probabilities[token - all_.begin] = 1.0F;
    return;
  }
  cpu::bracket_passes_for(rules_.target)
      .probabilities(values_, n, row.rule(), row.max(), row.low(),
                     nearest_double(row.survivors_weight()), probabilities);
  for (std::size_t i = ids_in_front(row.tie_end()); i < n; ++i) {
    if (values_[i] == row.low()) probabilities[i] = 0.0F;
  }
}

}  // namespace fairdraw::sharded
