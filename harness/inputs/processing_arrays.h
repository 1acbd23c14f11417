// The buffers of a call that hold its rows' logits processing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "reference/processing_model.h"

namespace fairdraw::harness {

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
struct HistoryArrays {
  bool prompt_mask = false;    ///< packed bits; ids that are no tokens are left out
  bool output_counts = false;  ///< dense, in addition to the lists; likewise
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
                      const HistoryArrays& form = {});

}  // namespace fairdraw::harness
