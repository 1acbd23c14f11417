// What logits processing is given: rows that are made.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "reference/processing_model.h"

namespace fairdraw::harness {

/// One of everything that can go wrong in a row's processing.
enum class ProcessingFault {
  none,
  nan_penalty,
  zero_repetition,
  negative_min_tokens,
  prompt_id,  ///< an id that is no token; the same below
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
  overflow,  ///< the largest float, biased upwards
};
inline constexpr int kProcessingFaults = 16;

/// The steps that a random row may have.
struct ProcessingSteps {
  bool penalties = true, bias = true, min_tokens = true, bad_words = true, allowed_ids = true;
  /// Some rows with lists of hundreds of ids, rarely more than a block of threads takes at once,
  /// and penalties at the ends of their ranges.
  bool wide = false;
};

/// Random processing of a row of `vocab` tokens: short lists with repetitions, ids at both ends of
/// the vocabulary, placeholders, words that the output completes, neutral and extreme values.
/// Integer arithmetic on `random` alone: the same row everywhere.
reference::RowProcessing random_processing(std::mt19937_64& random, std::int64_t vocab,
                                           const ProcessingSteps& steps = {});

/// Makes the row bad. `logits`: of the row, because an overflow needs a large one.
void mutate(reference::RowProcessing& row, ProcessingFault fault, std::span<float> logits);

}  // namespace fairdraw::harness
