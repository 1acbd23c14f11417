// What logits processing is given: rows that are made, and the buffers of a call that hold them.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "fairdraw/logits_processing.h"
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
};

/// Random processing of a row of `vocab` tokens: short lists with repetitions, ids at both ends of
/// the vocabulary, placeholders, words that the output completes, neutral and extreme values.
/// Integer arithmetic on `random` alone: the same row everywhere.
reference::RowProcessing random_processing(std::mt19937_64& random, std::int64_t vocab,
                                           const ProcessingSteps& steps = {});

/// Makes the row bad. `logits`: of the row, because an overflow needs a large one.
void spoil(reference::RowProcessing& row, ProcessingFault fault, std::span<float> logits);

/// Lists of ids, one a row, in one buffer.
struct OwnedLists {
  std::vector<std::int32_t> data;
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> lengths;

  void add(const std::vector<std::int32_t>& ids);
  /// The same in the memory of the list before, where that is how this one begins.
  void add_grown(const std::vector<std::int32_t>& ids);
  TokenLists view() const;
};

/// How histories are given.
struct HistoryForm {
  bool prompt_mask = false;    ///< packed bits; ids that are no tokens are left out
  bool output_counts = false;  ///< dense, beside the lists; likewise
  bool grown = false;          ///< outputs of rows that go on from each other share memory
};

/// Owning form of LogitsProcessing, of `rows` rows.
struct ProcessingArrays {
  std::vector<float> repetition_penalty, frequency_penalty, presence_penalty;
  std::vector<std::int32_t> min_tokens;
  OwnedLists prompt, output;
  std::vector<std::uint32_t> prompt_mask;  ///< empty: lists are given; the same below
  std::vector<std::int32_t> output_counts;
  OwnedLists bias_ids;
  std::vector<float> bias_values;
  OwnedLists stop_ids;
  std::vector<std::int32_t> output_lengths;
  OwnedLists bad_words, bad_word_lengths;
  OwnedLists allowed_ids;
  std::int64_t vocab = 0;

  /// Valid as long as this is, and not changed. Empty of no rows.
  LogitsProcessing view() const;
};

ProcessingArrays pack(std::span<const reference::RowProcessing> rows, std::int64_t vocab,
                      const HistoryForm& form = {});

}  // namespace fairdraw::harness
