// Rows of target and drafts for tests, on both backends, that draw chains and judge their
// distribution.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::suites {

inline constexpr std::int64_t kVocab = 5;
inline constexpr std::int64_t kDrafts = 2;

/// Probabilities of five tokens per row, one row after another.
using Rows = std::vector<float>;

/// Probabilities of the target in three rows, one per position.
inline const Rows kTarget = {0.5F,  0.25F, 0.125F, 0.125F, 0.0F, 0.1F, 0.2F, 0.3F,
                             0.15F, 0.25F, 0.2F,   0.2F,   0.2F, 0.2F, 0.2F};

/// Draft rows: near the target, far from the target, without some of its tokens, and equal to the
/// target.
inline const std::vector<Rows> kDraftRows = {
    {0.4F, 0.3F, 0.2F, 0.05F, 0.05F, 0.2F, 0.2F, 0.2F, 0.2F, 0.2F},
    {0.01F, 0.01F, 0.01F, 0.01F, 0.96F, 0.9F, 0.025F, 0.025F, 0.025F, 0.025F},
    {0.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.5F, 0.5F, 0.0F, 0.0F},
    {0.5F, 0.25F, 0.125F, 0.125F, 0.0F, 0.1F, 0.2F, 0.3F, 0.15F, 0.25F},
};

/// Returns the distribution of the row with number `row`.
inline reference::IntegerRow distribution_of(const Rows& rows, std::int64_t row) {
  return reference::integer_model_from_probs(
      {rows.data() + row * kVocab, static_cast<std::size_t>(kVocab)}, {});
}

}  // namespace fairdraw::suites
