// Translates a batch of the contract to the structs of fairdraw/sample.h, which are views of the
// batch's own arrays in host or device memory. This code reads scalar seeds, so they must be in
// host memory.
#pragma once

#include "fairdraw/sample.h"
#include "harness/contract/call_arrays.h"

namespace fairdraw::harness {

/// Returns a view of an optional array, which is empty if the array is null.
template <class T>
View<T> view_or_none(T* data, std::int64_t size) {
  return data != nullptr ? View<T>(data, size) : View<T>();
}

/// Returns the statuses of a call of the contract as a view that the library writes.
inline View<RowStatus> statuses_of(std::int32_t* statuses, std::int64_t size) {
  return view_or_none(reinterpret_cast<RowStatus*>(statuses), size);
}

/// Returns the seeds or the offsets of a call: one for the call, or `size` of them.
inline PerRequest<std::uint64_t> seeds_of(const std::uint64_t* values, std::int32_t is_scalar,
                                          std::int64_t size) {
  if (is_scalar != 0) return values[0];
  return {values, size};
}

/// Returns the logits processing of `rows` rows, which is neutral if the call gives none.
inline LogitsProcessing processing_of(const fairdraw_processing& given, std::int64_t rows,
                                      std::int64_t vocab) {
  LogitsProcessing processing;
  if (given.repetition_penalty == nullptr) return processing;
  const auto lists = [rows](const fairdraw_token_lists& all) {
    if (all.lengths == nullptr) return TokenLists{};
    return TokenLists{all.data, all.size, {all.begins, rows}, {all.lengths, rows}};
  };
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) \
  if (given.name != nullptr) processing.name = {given.name, rows};
#include "fairdraw/processing_parameters.inc"
  processing.prompt = lists(given.prompt);
  processing.output = lists(given.output);
  if (given.prompt_mask != nullptr) {
    processing.prompt_mask = {given.prompt_mask, rows, words_for(vocab)};
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
  processing.forced_tokens = lists(given.forced_tokens);
  processing.dry_breakers = lists(given.dry_breakers);
  return processing;
}

inline LogitsProcessing processing_of(const fairdraw_batch& batch) {
  return processing_of(batch.processing, batch.rows, batch.vocab);
}

inline LogprobsResult reports_of(const fairdraw_batch& batch) {
  const std::int64_t tokens = batch.outputs * batch.num_samples;
  const std::int64_t entries = batch.outputs * batch.top_n;
  LogprobsResult logprobs;
  logprobs.mode = static_cast<LogprobsMode>(batch.report_mode);
  logprobs.rank_rule = static_cast<RankRule>(batch.rank_rule);
  logprobs.top_n = batch.top_n;
  logprobs.values = view_or_none(batch.report_values, tokens);
  logprobs.ranks = view_or_none(batch.report_ranks, tokens);
  logprobs.top_ids = view_or_none(batch.report_top_ids, entries);
  logprobs.top_values = view_or_none(batch.report_top_values, entries);
  if (batch.report_all != nullptr) {
    logprobs.all = {batch.report_all, batch.rows, batch.report_all_stride};
  }
  return logprobs;
}

inline SampleRequest sample_request_of(const fairdraw_batch& batch) {
  SampleRequest request;
  request.logits = {batch.logits, static_cast<DType>(batch.dtype), batch.rows, batch.vocab,
                    batch.row_stride};
  request.temperature = {batch.temperature, batch.rows};
  request.top_k = {batch.top_k, batch.rows};
  request.top_p = {batch.top_p, batch.rows};
  request.min_p = {batch.min_p, batch.rows};
  request.seed = seeds_of(batch.seed, batch.seed_is_scalar, batch.outputs);
  request.offset = seeds_of(batch.offset, batch.seed_is_scalar, batch.outputs);
  request.tie_rule = static_cast<TieRule>(batch.tie_rule);
  request.filter_order = static_cast<FilterOrder>(batch.filter_order);
  if (batch.allowed != nullptr) {
    request.allowed = {batch.allowed, batch.rows, batch.allowed_stride};
  }
  request.processing = processing_of(batch);
  request.active = view_or_none(batch.active, batch.rows);
  request.indices = view_or_none(batch.indices, batch.outputs);
  request.num_samples = batch.num_samples;
  return request;
}

/// Returns the library's struct for the results of a batch. The argument `statuses` is separate,
/// because the contract stores statuses as plain integers.
inline SampleResult sample_result_of(const fairdraw_batch& batch, View<RowStatus> statuses) {
  const std::int64_t tokens = batch.outputs * batch.num_samples;
  SampleResult result;
  result.tokens = {batch.tokens, tokens};
  result.statuses = statuses;
  result.support_size = view_or_none(batch.support_size, batch.outputs);
  result.logprob = view_or_none(batch.logprob, tokens);
  result.logprob_filtered = view_or_none(batch.logprob_filtered, tokens);
  if (batch.mask != nullptr) result.mask = {batch.mask, batch.rows, batch.mask_stride};
  if (batch.probs != nullptr) result.probs = {batch.probs, batch.rows, batch.probs_stride};
  result.logprobs = reports_of(batch);
  return result;
}

}  // namespace fairdraw::harness
