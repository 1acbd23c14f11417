// FusedSamplingProcessor runs a step of generation over a BatchState. The functions of the class
// have the names of MAX's functions
// (max/python/max/pipelines/sampling/sampling_logits_processor.py).
//
// A step takes the logits of the forward pass, draws a token for every request that has rows among
// them, and appends the token to the request's history. The next step needs no further call,
// because histories, counts and offsets have advanced. Several steps in a row give the same tokens
// as the same steps with other work between them.
//
// Rows: a request may have several rows of logits in a step (a prefill, drafted tokens). The
// request of slot i has rows [logit_offsets[i], logit_offsets[i + 1]); a request without rows does
// not take part in the step. Without logit_offsets, row i belongs to slot i.
//
// Differences from MAX: a banned token gets -inf (-10000 in MAX). A request's random bits do not
// depend on its slot or its rows. Parameters are read in every step (in MAX some are constants of
// the graph). A row that cannot be sampled has a status and no token.
//
// The header needs C++17 and the standard library alone. A processor is used by one thread at a
// time.
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

/// Rows of a request that are sampled. last: the last row. all: each row in order; row j has the
/// token of row j - 1 in its history, as in so many steps of one row each.
enum class StepRows : std::uint32_t {
  last = 0,  ///< the last row of a request alone
  all = 1,   ///< each row of a request, in order
};

/// Steps of generation over a BatchState, on the CPU.
class FusedSamplingProcessor {
 public:
  /// The state must live at least as long as the processor. Several processors may use one state,
  /// one at a time.
  /// Errors: The constructor throws std::bad_alloc if there is no memory for its arrays.
  explicit FusedSamplingProcessor(BatchState& state, const Execution& execution = {});
  ~FusedSamplingProcessor();
  FusedSamplingProcessor(const FusedSamplingProcessor&) = delete;
  FusedSamplingProcessor& operator=(const FusedSamplingProcessor&) = delete;

  /// Runs one step. logits: [rows, vocab]. logit_offsets: [n + 1], from 0 to at most rows, never
  /// falling, with state.slots() <= n <= capacity. If logit_offsets is not given, n is rows.
  ///
  /// A row that fails leaves its request unchanged: the request gets no token, and its offset does
  /// not advance. Further rows of that request are not sampled, and all other requests continue. A
  /// request whose history is full fails with invalid_history. If the call returns an Error, no
  /// state has changed.
  Error step(const RowsView& logits, View<const std::int64_t> logit_offsets = {},
             StepRows rows = StepRows::last);
  /// Runs a step with offsets of 32 bits: `logits` [rows, vocab], `logit_offsets` [n + 1].
  Error step(const RowsView& logits, View<const std::uint32_t> logit_offsets,
             StepRows rows = StepRows::last);
  /// Runs step(): `logits` [rows, vocab], `logit_offsets` [n + 1].
  Error operator()(const RowsView& logits, View<const std::int64_t> logit_offsets = {}) {
    return step(logits, logit_offsets);
  }

  // The functions below run a step in two parts, with the caller's own processing between them.

  /// Writes the rows that a step draws from, before temperature and filters: row i of `logits` with
  /// the processing and the bitmask of slot i. Banned tokens get -inf, and rows of empty slots are
  /// left untouched. Draws nothing. The array `statuses`, [rows], is optional.
  /// Shapes: `logits` and `processed` are [rows, vocab].
  Error logits_for_sampling(const RowsView& logits, const FloatRows& processed,
                            View<RowStatus> statuses = {});
  /// Runs step() without logit_offsets over rows of logits_for_sampling(), whether the caller has
  /// changed the rows or not. The rows are not processed again.
  /// `processed`: [rows, vocab].
  Error step_processed(const RowsView& processed);

  // Results. The arrays below have the n entries of the last step in slot order, at an address that
  // never changes.

  /// Returns all tokens that the requests have drawn: the current outputs of the state.
  TokenLists generated_tokens() const noexcept;
  /// Returns the last token of the last step for each slot; -1: none.
  View<const std::int32_t> new_tokens() const noexcept;
  /// Returns the number of tokens that each request got in the last step: the last tokens of its
  /// output.
  View<const std::int32_t> new_token_counts() const noexcept;
  /// Returns the status of each slot: ok, inactive (empty slot, or no rows), or the fault of a row.
  View<const RowStatus> statuses() const noexcept;

  /// Sets the tokens that requests may draw: row i of `packed` is the bitmask of the request of
  /// slot i, for this step and later ones, until the next update. A word (uint32 or int32) has 32
  /// bits, and bit 1 means that the token is allowed.
  /// The array `packed` has [rows, ceil(vocab / 32)] words.
  Error update_bitmask(const BitRows<const std::uint32_t>& packed);
  /// Allows all tokens again, for every request.
  void clear_bitmask();

  /// Copies new_tokens() to memory of the host that later steps do not change. If sampling runs on
  /// a device, this returns at once, and wait_for_tokens() waits for the copy, but not for work
  /// that was started later. Error: invalid_argument before the first step.
  Error start_async_token_copy();
  /// Returns the tokens of the copy that was started last. The array is empty if no copy was
  /// started.
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
