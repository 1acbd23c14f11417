// The arrays of a call's logits processing, one by one: for those who have to put them elsewhere.
#pragma once

#include <cstdint>
#include <utility>

#include "harness/contract/batch.h"

namespace fairdraw::harness {

/// Calls visit(pointer, bytes) for every array of the processing of `rows` rows, given or not, in
/// one order. `visit` may change the pointer.
template <class Visit>
void each_processing_array(fairdraw_processing& processing, std::int64_t rows, std::int64_t vocab,
                           Visit&& visit) {
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
  visit(processing.prompt_mask, rows * ((vocab + 31) / 32) * 4);
  visit(processing.output_counts, rows * vocab * 4);
  visit(processing.output_lengths, rows * 4);
  lists(processing.bias_ids);
  visit(processing.bias_values, processing.bias_ids.size * 4);
  lists(processing.stop_ids);
  lists(processing.bad_words);
  lists(processing.bad_word_lengths);
  lists(processing.allowed_ids);
}

template <class Visit>
void each_processing_array(fairdraw_batch& batch, Visit&& visit) {
  each_processing_array(batch.processing, batch.rows, batch.vocab, std::forward<Visit>(visit));
}

}  // namespace fairdraw::harness
