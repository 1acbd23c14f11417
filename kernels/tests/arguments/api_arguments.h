// Valid arguments of the calls in api_calls.cpp: every array is given, with two rows of 40 tokens.
#pragma once

#include <cstdint>

#include "fairdraw/beam_search.h"
#include "fairdraw/kept_sets.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/speculative.h"
#include "fairdraw/stop_criteria.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/watermark.h"
#include "tests/arguments/api_calls.h"

namespace fairdraw::suites {

inline constexpr std::int64_t kRows = 2;
inline constexpr std::int64_t kVocab = 40;
inline constexpr std::int32_t kSamples = 2;

/// Returns the logits processing of a call. `by_mask`: the prompt is given as a bitmask and the
/// output is counted, so that the call cannot have lists of the prompt and rules of histories.
/// Token 1 stays allowed.
inline LogitsProcessing processing_of(Arrays& a, std::int64_t rows, bool by_mask) {
  LogitsProcessing processing;
  processing.repetition_penalty = a.each(rows, 2.0F);
  processing.frequency_penalty = a.each(rows, 0.5F);
  processing.presence_penalty = a.each(rows, 0.5F);
  if (by_mask) {
    processing.prompt_mask = a.bits<const std::uint32_t>(rows, kVocab);
    processing.output_counts = {a.block<std::int32_t>(rows * kVocab, 1), rows, kVocab};
  } else {
    processing.prompt = a.lists(rows, 4);
    processing.penalty_window = a.each<std::int32_t>(rows, 1);
    processing.counts_of_prompt = a.each<std::int32_t>(rows, 1);
    processing.no_repeat_ngram_size = a.each<std::int32_t>(rows, 2);
    processing.dry_multiplier = a.each(rows, 0.5F);
    processing.dry_base = a.each(rows, 2.0F);
    processing.dry_allowed_length = a.each<std::int32_t>(rows, 1);
    processing.dry_window = a.each<std::int32_t>(rows, 3);
    processing.dry_breakers = a.lists(rows, 1);
    processing.forced_after = a.each<std::int32_t>(rows, 4);
    processing.forced_delay = a.each<std::int32_t>(rows, 1);
    processing.top_p_decay = a.each(rows, 0.75F);
    processing.top_p_min = a.each(rows, 0.5F);
    processing.top_p_reset_id = a.each<std::int32_t>(rows, 2);
    processing.forced_tokens = a.lists(rows, 2);
  }
  processing.output = a.lists(rows, 5);
  processing.bias_ids = a.lists(rows, 1);
  processing.bias_values = a.in(rows, 0.25F);
  processing.min_tokens = a.each<std::int32_t>(rows, 3);
  processing.top_n_sigma = a.each(rows, -1.0F);  // turned off, because sharded calls reject
                                                 // top_n_sigma and the filters by probability
  processing.typical_p = a.each(rows, 1.0F);
  processing.epsilon_cutoff = a.each(rows, 0.0F);
  processing.eta_cutoff = a.each(rows, 0.0F);
  processing.p_less = a.each<std::int32_t>(rows, 0);
  processing.top_h = a.each(rows, 1.0F);
  processing.xtc_probability = a.each(rows, 0.0F);
  processing.xtc_threshold = a.each(rows, 0.1F);
  processing.filter_chain = a.each<std::uint64_t>(rows, 0U);
  processing.chain_temperature = a.each(rows, 0.5F);
  processing.chain_top_k = a.each<std::int32_t>(rows, 3);
  processing.chain_top_p = a.each(rows, 0.5F);
  processing.chain_min_p = a.each(rows, 0.25F);
  processing.dynatemp_range = a.each(rows, 0.0F);
  processing.dynatemp_exponent = a.each(rows, 2.0F);
  processing.adaptive_target = a.each(rows, 0.5F);
  processing.xtc_seed = a.each<std::uint64_t>(rows, 0U);
  processing.stop_ids = a.lists(rows, 3);
  processing.output_lengths = a.in<std::int32_t>(rows, 1);
  processing.bad_words = a.lists(rows, 2);
  processing.bad_word_lengths = a.lists(rows, 1);
  processing.allowed_ids = a.lists(rows, 1);
  return processing;
}

inline SampleRequest sample_request(Arrays& a, bool by_mask) {
  SampleRequest request;
  request.logits = a.rows(kRows, kVocab);
  request.temperature = a.each(kRows, 1.0F);
  request.top_k = a.each<std::int32_t>(kRows, 5);
  request.top_p = a.each(kRows, 0.9F);
  request.min_p = a.each(kRows, 0.1F);
  request.seed = a.each<std::uint64_t>(kRows, 7);
  request.offset = a.each<std::uint64_t>(kRows, 9);
  request.tie_rule = a.each(kRows, TieRule::lowest_id);
  request.filter_order = a.each(kRows, FilterOrder::joint);
  request.allowed = a.bits<const std::uint32_t>(kRows, kVocab);
  request.processing = processing_of(a, kRows, by_mask);
  request.active = a.in<std::uint8_t>(kRows, 1);
  request.indices = a.range<std::int32_t>(kRows, 0, 1);
  request.num_samples = kSamples;
  return request;
}

/// Returns the rows of a sharded call, with one tie rule and one filter order for the whole call.
inline SampleRequest sharded_rows(Arrays& a, bool by_mask) {
  SampleRequest request = sample_request(a, by_mask);
  request.tie_rule = TieRule::lowest_id;
  request.filter_order = FilterOrder::joint;
  return request;
}

/// Returns the rows of a marked call, which has one token per row.
inline SampleRequest marked_rows(Arrays& a, bool by_mask) {
  SampleRequest request = sample_request(a, by_mask);
  request.indices = {};
  request.num_samples = 1;
  return request;
}

inline Watermark watermark_of(Arrays& a) {
  Watermark watermark;
  watermark.key = a.each<std::uint64_t>(kRows, 7);
  watermark.second_key = a.each<std::uint64_t>(kRows, 9);
  watermark.mask_repeated = a.each<std::uint8_t>(kRows, 1);
  return watermark;
}

/// Returns the reports on `tokens` tokens.
inline LogprobsResult logprobs_result(Arrays& a, std::int64_t tokens = kRows * kSamples) {
  LogprobsResult result;
  result.mode = LogprobsMode::processed_logprobs;
  result.top_n = 3;
  result.values = a.out<float>(tokens);
  result.ranks = a.out<std::int32_t>(tokens);
  result.top_ids = a.out<std::int32_t>(kRows * 3);
  result.top_values = a.out<float>(kRows * 3);
  result.all = a.float_rows(kRows, kVocab);
  return result;
}

/// Returns the results of a call that draws `tokens` tokens.
inline SampleResult sample_result(Arrays& a, std::int64_t tokens = kRows * kSamples) {
  SampleResult result;
  result.tokens = a.out<std::int32_t>(tokens);
  result.statuses = a.out<RowStatus>(kRows);
  result.support_size = a.out<std::int32_t>(kRows);
  result.logprob = a.out<float>(tokens);
  result.logprob_filtered = a.out<float>(tokens);
  result.mask = a.bits<std::uint32_t>(kRows, kVocab);
  result.probs = a.float_rows(kRows, kVocab);
  result.logprobs = logprobs_result(a, tokens);
  return result;
}

inline KeptSets kept_sets(Arrays& a, std::int64_t sets) {
  return {a.out<std::int32_t>(kRows * kVocab), a.out<std::int64_t>(sets + 1),
          a.out<std::uint8_t>(sets)};
}

inline TileIndexRequest tile_request(Arrays& a) {
  TileIndexRequest request;
  request.rows = a.rows(kRows, kVocab);
  request.temperature = a.each(kRows, 1.0F);
  request.allowed = a.bits<const std::uint32_t>(kRows, kVocab);
  request.active = a.in<std::uint8_t>(kRows, 1);
  return request;
}

inline TileIndexResult tile_result(Arrays& a) {
  return {a.tiles<std::int32_t>(kRows, kVocab), a.tiles<std::uint64_t>(kRows, kVocab),
          a.out<RowStatus>(kRows)};
}

inline DrawOptions draw_options(Arrays& a) {
  return {a.each<std::uint64_t>(kRows, 7), a.each<std::uint64_t>(kRows, 9),
          a.range<std::int32_t>(kRows, 0, 1), kSamples};
}

inline DrawResult draw_result(Arrays& a) {
  return {a.out<std::int32_t>(kRows * kSamples), a.out<RowStatus>(kRows)};
}

inline LawFilters filters_of(Arrays& a) {
  LawFilters filters;
  filters.temperature = a.each(kRows, 1.0F);
  filters.top_k = a.each<std::int32_t>(kRows, 5);
  filters.top_p = a.each(kRows, 0.9F);
  filters.min_p = a.each(kRows, 0.1F);
  return filters;
}

/// Returns two requests with one drafted token each: four rows.
inline TargetRows target_rows(Arrays& a, bool is_packed) {
  constexpr std::int64_t kTargets = 2 * kRows;
  TargetRows target;
  target.logits = a.rows(kTargets, kVocab);
  target.filters = filters_of(a);
  target.allowed = a.bits<const std::uint32_t>(kTargets, kVocab);
  target.processing = processing_of(a, kTargets, is_packed);
  target.batch = kRows;
  if (is_packed) target.row_begins = a.range<std::int64_t>(kRows + 1, 0, 2);
  target.active = a.in<std::uint8_t>(kRows, 1);
  target.seed = a.each<std::uint64_t>(kRows, 7);
  target.offset = a.each<std::uint64_t>(kRows, 9);
  return target;
}

inline AcceptChainRequest chain_request(Arrays& a, bool is_packed) {
  AcceptChainRequest request;
  request.target = target_rows(a, is_packed);
  request.max_draft = 1;
  request.draft_tokens = a.in<std::int32_t>(kRows, 1);
  request.draft_lengths = a.in<std::int32_t>(kRows, 1);
  request.draft_law = DraftLaw::logits;
  request.draft = a.rows(kRows, kVocab);
  request.draft_filters = filters_of(a);
  request.accept_rule = a.each(kRows, AcceptRule::block);
  return request;
}

inline AcceptTreeRequest tree_request(Arrays& a, bool is_packed) {
  AcceptTreeRequest request;
  request.target = target_rows(a, is_packed);
  request.max_draft = 1;
  request.max_depth = 1;
  request.draft_tokens = a.in<std::int32_t>(kRows, 1);
  request.parents = a.in<std::int32_t>(kRows, -1);
  request.draft_lengths = a.in<std::int32_t>(kRows, 1);
  request.draft_law = DraftLaw::logits;
  request.draft = a.rows(2 * kRows, kVocab);
  request.draft_filters = filters_of(a);
  return request;
}

inline constexpr std::int32_t kSteps = 2;  // number of steps of the beam searches, of width 1

inline BeamPool beam_pool(Arrays& a) {
  return {a.out<std::int32_t>(kRows, 0), a.out<float>(kRows),        a.out<float>(kRows),
          a.out<std::int32_t>(kRows),    a.out<std::int32_t>(kRows), a.out<std::int32_t>(kRows)};
}

inline BeamHistory beam_history(Arrays& a) {
  return {a.out<std::int32_t>(kRows * kSteps, 0), a.out<std::int32_t>(kRows * kSteps, 0), kSteps};
}

/// Returns a step. `scalar_diversity`: the diversity rate is a scalar, because a GPU accepts no
/// array of rates.
inline BeamStepRequest beam_step(Arrays& a, bool scalar_diversity) {
  BeamStepRequest step;
  step.rows = a.rows(kRows, kVocab);
  step.requests = kRows;
  step.row_begins = a.range<std::int64_t>(kRows, 0, 1);
  step.live_beams = a.in<std::int32_t>(kRows, 1);
  step.scores = a.in(kRows, 0.0F);
  step.generated = a.in<std::int32_t>(kRows, 0);
  step.states = a.in(kRows, BeamState::live);
  BeamParameters& parameters = step.parameters;
  parameters.width = a.each<std::int32_t>(kRows, 1);
  parameters.length_penalty = a.each(kRows, 1.0F);
  parameters.early_stopping = a.each<std::int32_t>(kRows, 1);
  if (!scalar_diversity) parameters.diversity_rate = a.each(kRows, 0.0F);
  parameters.max_tokens = a.each<std::int32_t>(kRows, kSteps);
  parameters.end_ids = a.lists(kRows, 3);
  return step;
}

inline BeamStepResult beam_step_result(Arrays& a) {
  BeamStepResult result;
  result.parents = a.out<std::int32_t>(kRows);
  result.tokens = a.out<std::int32_t>(kRows);
  result.scores = a.out<float>(kRows);
  result.live_beams = a.out<std::int32_t>(kRows);
  result.generated = a.out<std::int32_t>(kRows);
  result.states = a.out<BeamState>(kRows);
  result.statuses = a.out<RowStatus>(kRows);
  result.pool = beam_pool(a);
  result.history = beam_history(a);
  return result;
}

inline BeamResultRequest beam_end(Arrays& a) {
  BeamResultRequest request;
  request.requests = kRows;
  request.pool = beam_pool(a);
  request.history = beam_history(a);
  request.live_beams = a.in<std::int32_t>(kRows, 1);
  request.scores = a.in(kRows, -1.0F);
  request.generated = a.in<std::int32_t>(kRows, kSteps);
  request.states = a.in(kRows, BeamState::length_done);
  request.length_penalty = a.each(kRows, 1.0F);
  return request;
}

inline BeamSequences beam_sequences(Arrays& a) {
  return {a.out<std::int32_t>(kRows * kSteps), a.out<std::int32_t>(kRows), a.out<float>(kRows),
          a.out<float>(kRows), a.out<RowStatus>(kRows)};
}

inline StopRequest stop_request(Arrays& a) {
  StopRequest request;
  request.requests = kRows;
  request.vocab = kVocab;
  request.step_tokens = a.in<std::int32_t>(kRows, 1);
  request.output = a.lists(kRows, 5);
  request.output_lengths = a.in<std::int32_t>(kRows, 1);
  request.criteria.eos_id = a.each<std::int32_t>(kRows, 2);
  request.criteria.ignore_eos = a.each<std::uint8_t>(kRows, 0);
  request.criteria.stop_ids = a.lists(kRows, 3);
  request.criteria.stop_sequences = a.lists(kRows, 4);
  request.criteria.stop_sequence_lengths = a.lists(kRows, 1);
  request.criteria.min_tokens = a.each<std::int32_t>(kRows, 1);
  request.criteria.max_tokens = a.each<std::int32_t>(kRows, 9);
  request.active = a.in<std::uint8_t>(kRows, 1);
  return request;
}

inline StopResult stop_result(Arrays& a) {
  return {a.out<FinishReason>(kRows), a.out<std::int32_t>(kRows), a.out<std::int32_t>(kRows),
          a.out<std::int32_t>(kRows), a.out<std::int32_t>(kRows), a.out<RowStatus>(kRows)};
}

}  // namespace fairdraw::suites
