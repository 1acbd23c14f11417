// Rules of histories that look for ids in prompt and output together: forced tokens, the penalty of
// repetitions, and repeated n-grams (steps 6, 3 and 5 of fairdraw/logits_processing.h).
//
// Contract. The block that edits a row calls these functions, with all its threads. They read the
// history, and find exactly what the CPU finds.
//
// Algorithm and cost. Each thread looks at every 512th place of the history. A budget of thinking
// costs one read of the history per step, and a second one of the ids of the budget in the few
// steps in which it ends. For the penalty of repetitions, each place compares the ids before it
// with the last ids, no more of them than the penalty grows with. No memory has a number for each
// token that could hold the longest repetition of a token. So the last place of a token looks at
// all places of the token again, which takes time in proportion to the history for each token that
// would repeat ids; usually these are few.
//
// Determinism: places are found by integer minima and maxima, and one thread writes a token.
#pragma once

#include <cstdint>

#include "common/processing_rules.h"
#include "cuda/device/read_value.cuh"

namespace fairdraw::cuda {

/// Returns the entry of forced_tokens that is forced, or -1. `place` is in shared memory. The
/// function is out of line, as is the next one, so that rows without these rules do not pay for its
/// registers.
__device__ __noinline__ inline std::int32_t find_forced_entry(const HistoryRules& rules,
                                                              const History& history,
                                                              const RowList& forced, int& place) {
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  const auto threads = static_cast<std::int64_t>(blockDim.x);
  if (thread == 0) place = -1;
  __syncthreads();
  if (rules.forced_after >= 0) {
    std::int64_t last = -1;
    for (std::int64_t i = thread; i < history.length(); i += threads) {
      if (history.at(i) == rules.forced_after) last = i;
    }
    if (last >= 0) atomicMax(&place, static_cast<int>(last));
  } else if (thread == 0) {
    place = history.prompt.length - 1;
  }
  __syncthreads();
  const std::int64_t first = std::int64_t{place} + 1;
  const bool begins = rules.forced_after < 0 || first > 0;
  const std::int32_t entry = begins ? forced_entry(rules, forced, history.length() - first) : -1;
  if (entry < 0) return -1;
  bool ended = false;
  for (std::int64_t i = first + thread; i < first + rules.forced_delay; i += threads) {
    ended = ended || history.at(i) == forced.ids[forced.length - 1];
  }
  return __syncthreads_or(static_cast<int>(ended)) != 0 ? -1 : entry;
}

/// Returns whether a token is one of the row's `vocab` tokens, the first of which is `first_id`.
__device__ __forceinline__ bool is_in_row(std::int32_t id, int first_id, int vocab) {
  return static_cast<unsigned>(id) - static_cast<unsigned>(first_id) < static_cast<unsigned>(vocab);
}

/// Row whose repetitions a block penalises or bans. The references are to shared memory.
struct RepeatedRow {
  const HistoryRules& rules;
  const History& history;
  const RowList& breakers;
  int& place;
  RowValues logits;
  std::uint32_t* allowed;
  std::uint32_t* edited;
  float* values;
  int first_id, vocab;

  /// Bans the tokens that would repeat an n-gram.
  __device__ void ban_repeated_ngrams() {
    const std::int32_t n = rules.no_repeat_ngram_size;
    for (std::int64_t i = threadIdx.x; i < history.length(); i += blockDim.x) {
      const std::int32_t id = history.at(i);
      if (!is_in_row(id, first_id, vocab) || !history.ends_with_ids_before(i, n)) continue;
      const int token = id - first_id;
      atomicAnd(&allowed[token / 32], ~(1U << (token % 32)));
    }
  }

  /// Subtracts the penalty from each token once, by the thread of the token's last place that asks
  /// for it.
  __device__ void penalise() {
    const std::int64_t end = history.length();
    const std::int64_t first =
        rules.dry_window < 0 || rules.dry_window > end ? 0 : end - rules.dry_window;
    const RepetitionPenalty penalty(rules);
    const std::int64_t limit = find_limit(first, penalty.longest(end));
    if (limit < rules.dry_allowed_length) return;
    for (std::int64_t i = first + 1 + threadIdx.x; i < end; i += blockDim.x) {
      const std::int32_t id = history.at(i);
      if (!is_in_row(id, first_id, vocab) ||
          history.repeated_before(i, first, limit) < rules.dry_allowed_length || breakers.has(id)) {
        continue;
      }
      const std::int64_t repeated = longest_repetition(i, first, limit);
      if (repeated < 0) continue;
      const int token = id - first_id;
      const std::uint32_t bit = 1U << (token % 32);
      const bool is_edited = (edited[token / 32] & bit) != 0;
      const float before = is_edited ? values[token] : logits[token];
      values[token] = rounded::subtract(before, penalty.of(repeated));
      if (!is_edited) atomicOr(&edited[token / 32], bit);
    }
  }

 private:
  /// Returns the number of ids after the last breaker, of the `longest` last ones.
  __device__ std::int64_t find_limit(std::int64_t first, std::int64_t longest) const {
    const std::int64_t end = history.length();
    const std::int64_t most = longest < end - first ? longest : end - first;
    if (threadIdx.x == 0) place = static_cast<int>(most);
    __syncthreads();
    for (std::int64_t back = threadIdx.x; back < most; back += blockDim.x) {
      if (breakers.has(history.at(end - 1 - back))) atomicMin(&place, static_cast<int>(back));
    }
    __syncthreads();
    return place;
  }

  /// Returns the largest number of ids that the token of a place would repeat, or -1 if a later
  /// place of the token asks for the penalty, too.
  __device__ std::int64_t longest_repetition(std::int64_t of, std::int64_t first,
                                             std::int64_t limit) const {
    const std::int32_t id = history.at(of);
    std::int64_t longest = 0;
    for (std::int64_t i = history.length() - 1; i > first; --i) {
      if (history.at(i) != id) continue;
      const std::int64_t repeated = history.repeated_before(i, first, limit);
      if (repeated < rules.dry_allowed_length) continue;
      if (i > of) return -1;
      longest = repeated > longest ? repeated : longest;
    }
    return longest;
  }
};

__device__ __noinline__ inline void apply_rules(RepeatedRow row) {
  if (row.rules.dry_multiplier != 0.0F) row.penalise();
  if (row.rules.no_repeat_ngram_size > 0) row.ban_repeated_ngrams();
}

}  // namespace fairdraw::cuda
