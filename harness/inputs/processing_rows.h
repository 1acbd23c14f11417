// Generates rows of logits processing.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "reference/processing_model.h"

namespace fairdraw::harness {

/// The faults that a row's processing can have.
enum class ProcessingFault {
  none,
  nan_penalty,
  zero_repetition,
  negative_min_tokens,
  prompt_id,  ///< id that is no token; also in the fields of the next faults
  output_id,
  negative_output_length,
  nan_bias,
  infinite_bias,
  bias_id,
  stop_id,
  empty_word,
  word_beyond_list,
  word_id,
  allowed_id,
  overflow,  ///< the largest float32, increased by a bias
};
inline constexpr int kProcessingFaults = 16;

/// The steps that a random row may contain.
struct ProcessingSteps {
  bool penalties = true, bias = true, min_tokens = true, bad_words = true, allowed_ids = true;
  /// Gives some rows lists of hundreds of ids (rarely more than a block of threads takes at once),
  /// and penalties at the ends of their ranges.
  bool wide = false;
};

/// Generates random processing of a row of `vocab` tokens: short lists with repetitions, ids at
/// both ends of the vocabulary, placeholders, words that the output completes, neutral and extreme
/// values. Uses only integer arithmetic on `random`, so that every machine makes the same row.
reference::RowProcessing random_processing(std::mt19937_64& random, std::int64_t vocab,
                                           const ProcessingSteps& steps = {});

/// Puts a fault into the processing of a row. `logits` are the row's; an overflow needs a large
/// one, so they may change.
void mutate(reference::RowProcessing& row, ProcessingFault fault, std::span<float> logits);

}  // namespace fairdraw::harness
