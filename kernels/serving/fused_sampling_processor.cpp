// Implementation of FusedSamplingProcessor, which makes steps over a BatchState.
//
// The contract is given in fairdraw/fused_sampling_processor.h.
//
// Algorithm. A step is one call of `sample` with one row per slot. The rows of logits are not
// copied together: for slot i, the call reads row logit_rows[i] of the caller's matrix (run_batch).
// The parameters, the histories and the bitmask are the arrays of the state itself. With
// StepRows::all, there is one such call for the first rows of all requests, one for the second
// rows, and so on, because the history of a row includes the token drawn from the row before.
// Between two calls, the drawn tokens are appended to the state.
//
// Cost. A step costs as much as its calls of `sample`, and a few stores per slot. No memory is
// allocated after the first step.
//
// Randomness. The randomness is that of BatchState: each request has one seed and one offset, with
// the purpose draw and index 0.
//
// Determinism. A token depends on its row, on the parameters and the history of its request, and on
// the seed and the offset. It does not depend on the slot, on other requests, on threads or on the
// instruction set.
#include "fairdraw/fused_sampling_processor.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "cpu/batch.h"
#include "fairdraw/process_logits.h"

namespace fairdraw {

/// Arrays with one value per slot, whose length is the capacity of the state.
struct FusedSamplingProcessor::Buffers {
  explicit Buffers(std::size_t capacity)
      : begins(capacity + 1),
        logit_rows(capacity),
        active(capacity),
        drawn(capacity),
        drawn_statuses(capacity),
        tokens(capacity),
        counts(capacity),
        statuses(capacity),
        copied_tokens(capacity) {}

  // Rows of the step: request i has the rows from begins[i] up to begins[i + 1], which is not
  // included.
  std::vector<std::int64_t> begins;
  // Arguments of one call of `sample` in the step.
  std::vector<std::int64_t> logit_rows;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> drawn;
  std::vector<RowStatus> drawn_statuses;
  // Results of the last step.
  std::int64_t slots = 0;
  bool has_stepped = false;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> counts;
  std::vector<RowStatus> statuses;
  // Copy of the tokens of the step, and the number of slots in the copy.
  std::int64_t copied = -1;
  std::vector<std::int32_t> copied_tokens;
};

namespace {

Error check_slots(const char* field, std::int64_t slots, const BatchState& state) {
  if (slots >= state.slots() && slots <= state.options().capacity) return {};
  return out_of_range(field, std::to_string(slots),
                      std::to_string(state.slots()) + " (slots in use) to " +
                          std::to_string(state.options().capacity) + " (capacity)");
}

/// Reads the offsets of rows, or assumes one row per slot if there are no offsets. If there is an
/// error, the function writes nothing.
template <class Offset>
Error read_offsets(const RowsView& logits, View<const Offset> offsets, const BatchState& state,
                   std::vector<std::int64_t>& begins, std::int64_t& slots) {
  if (!offsets.given()) {
    if (Error error = check_slots("logits.rows", logits.rows, state)) return error;
    slots = logits.rows;
    std::iota(begins.begin(), begins.begin() + slots + 1, std::int64_t{0});
    return {};
  }
  if (Error error = check_size("length of logit_offsets", offsets.size, sizeof(Offset))) {
    return error;
  }
  if (Error error = check_slots("length of logit_offsets - 1", offsets.size - 1, state)) {
    return error;
  }
  std::uint64_t before = 0;
  for (std::int64_t i = 0; i < offsets.size; ++i) {
    const auto most = static_cast<std::uint64_t>(i == 0 ? 0 : logits.rows);
    const auto offset = static_cast<std::uint64_t>(offsets.data[i]);  // if negative: wraps
    if (offset < before || offset > most) {
      return out_of_range("logit_offsets[" + std::to_string(i) + "]",
                          std::to_string(offsets.data[i]),
                          std::to_string(before) + " to " + std::to_string(most));
    }
    before = offset;
  }
  slots = offsets.size - 1;
  std::copy_n(offsets.data, offsets.size, begins.begin());
  return {};
}

bool is_full(const BatchState& state, std::int32_t slot) {
  return state.prompt(slot).size + state.output(slot).size >= state.options().max_length;
}

}  // namespace

FusedSamplingProcessor::FusedSamplingProcessor(BatchState& state, const Execution& execution)
    : state_(state),
      execution_(execution),
      buffers_(std::make_unique<Buffers>(static_cast<std::size_t>(state.options().capacity))) {}

FusedSamplingProcessor::~FusedSamplingProcessor() = default;

Error FusedSamplingProcessor::step(const RowsView& logits, View<const std::int64_t> logit_offsets,
                                   StepRows rows) {
  return step_with(logits, logit_offsets, rows);
}

Error FusedSamplingProcessor::step(const RowsView& logits, View<const std::uint32_t> logit_offsets,
                                   StepRows rows) {
  return step_with(logits, logit_offsets, rows);
}

Error FusedSamplingProcessor::logits_for_sampling(const RowsView& logits,
                                                  const FloatRows& processed,
                                                  View<RowStatus> statuses) {
  SampleRequest request;
  if (Error error = state_.sample_request(logits, request)) return error;
  return process_logits({logits, request.processing, request.allowed, request.active},
                        {processed, statuses}, execution_);
}

Error FusedSamplingProcessor::step_processed(const RowsView& processed) {
  return step_with(processed, View<const std::int64_t>{}, StepRows::last, /*are_processed=*/true);
}

template <class Offset>
Error FusedSamplingProcessor::step_with(const RowsView& logits, View<const Offset> logit_offsets,
                                        StepRows rows, bool are_processed) {
  if (Error error = cpu::check_execution(execution_)) return error;
  if (Error error = check_rows(logits, "logits")) return error;
  if (Error error = check_length("a row of logits", logits.vocab, state_.options().vocab,
                                 "vocab of the batch state")) {
    return error;
  }
  if (static_cast<std::uint32_t>(rows) > 1) {
    return out_of_range("rows", std::to_string(static_cast<std::uint32_t>(rows)),
                        "0 (last) or 1 (all)");
  }
  Buffers& b = *buffers_;
  if (Error error = read_offsets(logits, logit_offsets, state_, b.begins, b.slots)) return error;

  const auto slots = static_cast<std::ptrdiff_t>(b.slots);
  b.has_stepped = true;
  std::fill_n(b.tokens.begin(), slots, -1);
  std::fill_n(b.counts.begin(), slots, 0);
  std::fill_n(b.statuses.begin(), slots, RowStatus::inactive);
  for (std::int64_t call = 0;; ++call) {
    if (!choose_rows(rows, call)) return {};
    if (Error error = sample_chosen_rows(logits, are_processed)) return error;
  }
}

/// Chooses the row of each request for one call, which is the request's last row or its row number
/// `call`. Returns false if no request has such a row.
bool FusedSamplingProcessor::choose_rows(StepRows rows, std::int64_t call) {
  if (rows == StepRows::last && call > 0) return false;
  Buffers& b = *buffers_;
  bool any = false;
  for (std::int32_t slot = 0; slot < b.slots; ++slot) {
    const auto s = static_cast<std::size_t>(slot);
    const std::int64_t row = rows == StepRows::last ? b.begins[s + 1] - 1 : b.begins[s] + call;
    b.active[s] = 0;
    if (!state_.is_occupied(slot) || row < b.begins[s] || row >= b.begins[s + 1]) continue;
    if (call > 0 && b.statuses[s] != RowStatus::ok) continue;
    if (is_full(state_, slot)) {
      b.statuses[s] = RowStatus::invalid_history;
      continue;
    }
    b.logit_rows[s] = row;
    b.active[s] = 1;
    any = true;
  }
  return any;
}

Error FusedSamplingProcessor::sample_chosen_rows(const RowsView& logits, bool are_processed) {
  Buffers& b = *buffers_;
  RowsView rows = logits;
  rows.rows = b.slots;
  SampleRequest request;
  if (Error error = state_.sample_request(rows, request)) return error;
  request.active = {b.active.data(), b.slots};
  if (are_processed) {
    // The top_p and the temperature of a row are no part of its logits.
    LogitsProcessing of_parameters;
    of_parameters.output = request.processing.output;
    of_parameters.top_p_decay = request.processing.top_p_decay;
    of_parameters.top_p_min = request.processing.top_p_min;
    of_parameters.top_p_reset_id = request.processing.top_p_reset_id;
    of_parameters.dynatemp_range = request.processing.dynatemp_range;
    of_parameters.dynatemp_exponent = request.processing.dynatemp_exponent;
    request.processing = of_parameters;
    request.allowed = {};
  }
  SampleResult result;
  result.tokens = {b.drawn.data(), b.slots};
  result.statuses = {b.drawn_statuses.data(), b.slots};
  if (Error error =
          cpu::run_batch(request, result, execution_, "logits", /*options=*/{},
                         /*wants_tokens=*/true, /*given_tokens=*/{}, b.logit_rows.data())) {
    return error;
  }
  if (Error error = state_.append_step({b.drawn.data(), b.slots})) return error;
  for (std::size_t s = 0; s < static_cast<std::size_t>(b.slots); ++s) {
    if (b.active[s] == 0) continue;
    b.statuses[s] = b.drawn_statuses[s];
    if (b.drawn[s] < 0) continue;
    b.tokens[s] = b.drawn[s];
    ++b.counts[s];
  }
  return {};
}

TokenLists FusedSamplingProcessor::generated_tokens() const noexcept {
  return state_.outputs(static_cast<std::int32_t>(buffers_->slots));
}

View<const std::int32_t> FusedSamplingProcessor::new_tokens() const noexcept {
  return {buffers_->tokens.data(), buffers_->slots};
}

View<const std::int32_t> FusedSamplingProcessor::new_token_counts() const noexcept {
  return {buffers_->counts.data(), buffers_->slots};
}

View<const RowStatus> FusedSamplingProcessor::statuses() const noexcept {
  return {buffers_->statuses.data(), buffers_->slots};
}

Error FusedSamplingProcessor::update_bitmask(const BitRows<const std::uint32_t>& packed) {
  return state_.set_allowed(packed);
}

void FusedSamplingProcessor::clear_bitmask() { state_.clear_allowed(); }

Error FusedSamplingProcessor::start_async_token_copy() {
  Buffers& b = *buffers_;
  if (!b.has_stepped) return out_of_range("number of steps", "0", ">= 1 before tokens are copied");
  std::copy_n(b.tokens.begin(), static_cast<std::ptrdiff_t>(b.slots), b.copied_tokens.begin());
  b.copied = b.slots;
  return {};
}

View<const std::int32_t> FusedSamplingProcessor::wait_for_tokens() const noexcept {
  if (buffers_->copied < 0) return {};
  return {buffers_->copied_tokens.data(), buffers_->copied};
}

}  // namespace fairdraw
