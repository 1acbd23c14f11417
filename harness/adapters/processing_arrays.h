// The arrays of a batch's logits processing, one by one: for those who have to put them elsewhere.
#pragma once

#include "harness/contract/batch.h"

namespace fairdraw::harness {

/// Calls visit(pointer, bytes) for every array of the batch's processing, given or not, in one
/// order. `visit` may change the pointer.
template <class Visit>
void each_processing_array(fairdraw_batch& batch, Visit&& visit) {
  fairdraw_processing& processing = batch.processing;
  const std::int64_t rows = batch.rows;
  const auto lists = [&](fairdraw_token_lists& all) {
    visit(all.data, all.size * 4);
    visit(all.begins, rows * 8);
    visit(all.lengths, rows * 4);
  };
  visit(processing.repetition_penalty, rows * 4);
  visit(processing.frequency_penalty, rows * 4);
  visit(processing.presence_penalty, rows * 4);
  visit(processing.min_tokens, rows * 4);
  lists(processing.prompt);
  lists(processing.output);
  visit(processing.prompt_mask, rows * ((batch.vocab + 31) / 32) * 4);
  visit(processing.output_counts, rows * batch.vocab * 4);
  visit(processing.output_lengths, rows * 4);
  lists(processing.bias_ids);
  visit(processing.bias_values, processing.bias_ids.size * 4);
  lists(processing.stop_ids);
  lists(processing.bad_words);
  lists(processing.bad_word_lengths);
  lists(processing.allowed_ids);
}

}  // namespace fairdraw::harness
