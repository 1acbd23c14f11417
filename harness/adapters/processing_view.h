// The contract's processing as the public API has it.
#pragma once

#include "fairdraw/logits_processing.h"
#include "harness/contract/batch.h"

namespace fairdraw::harness {

/// Of so many rows; neutral where there is none.
inline LogitsProcessing processing_of(const fairdraw_processing& given, std::int64_t rows,
                                      std::int64_t vocab) {
  LogitsProcessing processing;
  if (given.repetition_penalty == nullptr) return processing;
  const auto lists = [rows](const fairdraw_token_lists& all) {
    if (all.lengths == nullptr) return TokenLists{};
    return TokenLists{all.data, all.size, {all.begins, rows}, {all.lengths, rows}};
  };
  processing.repetition_penalty = {given.repetition_penalty, rows};
  processing.frequency_penalty = {given.frequency_penalty, rows};
  processing.presence_penalty = {given.presence_penalty, rows};
  processing.min_tokens = {given.min_tokens, rows};
  processing.prompt = lists(given.prompt);
  processing.output = lists(given.output);
  if (given.prompt_mask != nullptr) {
    processing.prompt_mask = {given.prompt_mask, rows, (vocab + 31) / 32};
  }
  if (given.output_counts != nullptr) {
    processing.output_counts = {given.output_counts, rows, vocab};
  }
  processing.output_lengths = {given.output_lengths, rows};
  processing.bias_ids = lists(given.bias_ids);
  processing.bias_values = {given.bias_values, given.bias_ids.size};
  processing.stop_ids = lists(given.stop_ids);
  processing.bad_words = lists(given.bad_words);
  processing.bad_word_lengths = lists(given.bad_word_lengths);
  processing.allowed_ids = lists(given.allowed_ids);
  return processing;
}

inline LogitsProcessing processing_of(const fairdraw_batch& batch) {
  return processing_of(batch.processing, batch.rows, batch.vocab);
}

}  // namespace fairdraw::harness
