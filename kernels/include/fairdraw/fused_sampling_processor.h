// FusedSamplingProcessor: a step of generation over a BatchState, in the verbs of MAX
// (max/python/max/pipelines/sampling/sampling_logits_processor.py).
//
// A step takes the logits of the forward pass, draws a token for every request that has rows in
// it, and appends it to the request's history, so that the next step needs nothing else: histories,
// counts and offsets have advanced. Several steps in a row equal the same steps with anything
// between them.
//
// Rows: a request may have several rows of logits in a step (a prefill, drafted tokens). Request of
// slot i has rows [logit_offsets[i], logit_offsets[i + 1]); none: it sits the step out. Without
// offsets row i belongs to slot i.
//
// Different from MAX: banned tokens get -inf (there -10000); a request's random bits do not depend
// on its place, whatever the row; parameters are read in every step (there some are baked into the
// graph); a row that cannot be sampled has a status and no token.
//
// C++17, the standard library alone. One thread at a time.
//
// Errors: A call returns invalid_argument if an argument is out of its range, and unsupported if
// this machine has no execution.target; then no request has changed. A row that fails has a status
// of `sample` (fairdraw/sample.h), or invalid_history if its request's history is full.
//
// Definition: MAX (sampling_logits_processor.py) for the verbs, docs/serving.md for the steps,
// fairdraw/sample.h for the draws.
#pragma once

#include <cstdint>
#include <memory>

#include "fairdraw/batch_state.h"

namespace fairdraw {

/// Which rows of a request are sampled. last: the last one. all: each, in order, and row j sees
/// the token of row j - 1 in its history, as that many steps would.
enum class StepRows : std::uint32_t {
  last = 0,  ///< the last row of a request
  all = 1,   ///< each row, in order
};

/// Steps of generation over a BatchState, on the CPU.
class FusedSamplingProcessor {
 public:
  /// The state must live at least as long. Several processors may share one, one at a time.
  /// Errors: The constructor throws std::bad_alloc if there is no memory for its arrays.
  explicit FusedSamplingProcessor(BatchState& state, const Execution& execution = {});
  ~FusedSamplingProcessor();
  FusedSamplingProcessor(const FusedSamplingProcessor&) = delete;
  FusedSamplingProcessor& operator=(const FusedSamplingProcessor&) = delete;

  /// One step. logits: [rows, vocab]. logit_offsets: [n + 1], from 0 to at most rows, never
  /// falling, with state.slots() <= n <= capacity; not given: n is rows.
  ///
  /// A row that fails leaves its request as it was: no token, the offset does not move; further
  /// rows of that request are not sampled, and all other requests go on. A request whose history is
  /// full fails with invalid_history. On an Error nothing has happened.
  Error step(const RowsView& logits, View<const std::int64_t> logit_offsets = {},
             StepRows rows = StepRows::last);
  /// As the step before, with offsets of 32 bits: `logits` [rows, vocab], `logit_offsets` [n + 1].
  Error step(const RowsView& logits, View<const std::uint32_t> logit_offsets,
             StepRows rows = StepRows::last);
  /// As step(): `logits` [rows, vocab], `logit_offsets` [n + 1].
  Error operator()(const RowsView& logits, View<const std::int64_t> logit_offsets = {}) {
    return step(logits, logit_offsets);
  }

  // A step in two, with the caller's own processing between them: a hook.

  /// The rows that a step draws from, before temperature and filters: row i of `logits` with the
  /// processing and the bitmask of slot i. Banned tokens are -inf, and rows of empty slots are left
  /// untouched. Draws nothing. `statuses`, [rows], is optional.
  /// `logits` and `processed`: [rows, vocab].
  Error logits_for_sampling(const RowsView& logits, const FloatRows& processed,
                            View<RowStatus> statuses = {});
  /// As step() without offsets, over rows of logits_for_sampling(), changed or not: they are not
  /// processed again.
  /// `processed`: [rows, vocab].
  Error step_processed(const RowsView& processed);

  // Results. Their arrays are in slot order, have n entries of the last step, and never move.

  /// All tokens that the requests have drawn: the outputs of the state, as they are now.
  TokenLists generated_tokens() const noexcept;
  /// The last token of the last step; -1: none.
  View<const std::int32_t> new_tokens() const noexcept;
  /// How many tokens each request got in the last step: the last so many of its generated ones.
  View<const std::int32_t> new_token_counts() const noexcept;
  /// ok, inactive (empty slot, or no rows), or what was wrong with a row.
  View<const RowStatus> statuses() const noexcept;

  /// Row i of `packed` are the tokens that the request of slot i may draw, in this step and later
  /// ones until they are updated. 32 to a word (uint32 or int32), bit 1: allowed.
  /// `packed`: [rows, ceil(vocab / 32)] words.
  Error update_bitmask(const BitRows<const std::uint32_t>& packed);
  /// Allows all tokens again, for every request.
  void clear_bitmask();

  /// Copies new_tokens() to memory of the host that later steps leave alone. If sampling runs on a
  /// device, this returns at once, and wait_for_tokens() waits for the copy, but not for work that
  /// was started later. Before the first step: invalid_argument.
  Error start_async_token_copy();
  /// The tokens of the copy that was started last. Empty where none was.
  View<const std::int32_t> wait_for_tokens() const noexcept;

 private:
  struct Buffers;
  template <class Offset>
  Error step_with(const RowsView& logits, View<const Offset> logit_offsets, StepRows rows,
                  bool are_processed = false);
  bool choose_rows(StepRows rows, std::int64_t call);
  Error sample_chosen_rows(const RowsView& logits, bool are_processed);

  BatchState& state_;
  Execution execution_;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace fairdraw
