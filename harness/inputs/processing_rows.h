// Generates logits processing for rows.
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
  prompt_id,  ///< an id that is no token; also in the fields of the next faults
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
  overflow,  ///< a bias that increases a logit of the largest float32
};
inline constexpr int kProcessingFaults = 16;

/// The steps of processing that a random row may contain.
struct ProcessingSteps {
  bool penalties = true, bias = true, min_tokens = true, bad_words = true, allowed_ids = true;
  /// Gives some rows lists of hundreds of ids (seldom more than a block of threads takes at once),
  /// and penalties at the ends of their ranges.
  bool wide = false;
};

/// Generates random processing for a row of `vocab` tokens: short lists with repeated ids, ids at
/// both ends of the vocabulary, placeholders, bad words that the output completes, and neutral and
/// extreme values. The function uses only integer arithmetic on `random`, so that every machine
/// makes the same row.
reference::RowProcessing random_processing(std::mt19937_64& random, std::int64_t vocab,
                                           const ProcessingSteps& steps = {});

/// Turns on about one filter by probability, with values at the ends of their ranges, and beyond.
void add_random_filters(reference::RowProcessing& row, std::mt19937_64& random);

/// Turns on rules of histories, and lets most outputs end with ids that the history has already, so
/// that ids would be repeated.
void add_random_rules(reference::RowProcessing& row, std::mt19937_64& random, std::int64_t vocab);

/// Puts a fault into the processing of a row. The argument `logits` has the logits of the row,
/// which may change, because an overflow needs a large logit.
void mutate(reference::RowProcessing& row, ProcessingFault fault, std::span<float> logits);

}  // namespace fairdraw::harness
