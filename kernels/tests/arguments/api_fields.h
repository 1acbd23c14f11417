// The fields of every struct of arguments in the public headers, by name.
//
// A structured binding must name all fields of its struct, so that a missing field makes the
// compilation fail. So a new field must be added here, and the tests that iterate over these lists
// then cover the field.
#pragma once

#include <string>
#include <tuple>

#include "fairdraw/adaptive_p.h"
#include "fairdraw/beam_search.h"
#include "fairdraw/cuda.h"
#include "fairdraw/kept_sets.h"
#include "fairdraw/log_probabilities.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/mirostat.h"
#include "fairdraw/parallel_sampling.h"
#include "fairdraw/process_logits.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/sharded.h"
#include "fairdraw/speculative.h"
#include "fairdraw/stop_criteria.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/types.h"
#include "fairdraw/watermark.h"

namespace fairdraw::suites {

template <class T>
struct Fields;

// Each binding has the name of its field, so that one list gives both names and values.
#define FAIRDRAW_FIELDS(Struct, ...)                    \
  template <>                                           \
  struct Fields<Struct> {                               \
    static constexpr const char* kNames = #__VA_ARGS__; \
    static auto of(Struct& object) {                    \
      auto& [__VA_ARGS__] = object;                     \
      return std::tie(__VA_ARGS__);                     \
    }                                                   \
  }

FAIRDRAW_FIELDS(Execution, target, threads);
FAIRDRAW_FIELDS(cuda::Execution, stream, workspace, workspace_bytes, path);

FAIRDRAW_FIELDS(LogitsProcessing, repetition_penalty, frequency_penalty, presence_penalty, prompt,
                output, prompt_mask, output_counts, bias_ids, bias_values, min_tokens, stop_ids,
                output_lengths, bad_words, bad_word_lengths, allowed_ids, forced_tokens,
                dry_breakers, top_n_sigma, typical_p, epsilon_cutoff, eta_cutoff, p_less, top_h,
                xtc_probability, xtc_threshold, xtc_seed, filter_chain, chain_temperature,
                chain_top_k, chain_top_p, chain_min_p, dynatemp_range, dynatemp_exponent,
                adaptive_target, penalty_window, counts_of_prompt, no_repeat_ngram_size,
                dry_multiplier, dry_base, dry_allowed_length, dry_window, forced_after,
                forced_delay, top_p_decay, top_p_min, top_p_reset_id);
FAIRDRAW_FIELDS(SampleRequest, logits, temperature, top_k, top_p, min_p, seed, offset, tie_rule,
                filter_order, allowed, processing, active, indices, num_samples, purpose);
FAIRDRAW_FIELDS(LogprobsResult, mode, rank_rule, top_n, values, ranks, top_ids, top_values, all);
FAIRDRAW_FIELDS(SampleResult, tokens, statuses, support_size, logprob, logprob_filtered, mask,
                probs, logprobs);
FAIRDRAW_FIELDS(KeptSets, token_ids, offsets, overflow);
FAIRDRAW_FIELDS(WatermarkRule, window, scheme, layers, green_share);
FAIRDRAW_FIELDS(Watermark, key, second_key, second_share, rule, green_bias, mask_repeated);
FAIRDRAW_FIELDS(WatermarkText, tokens, keys, rule);
FAIRDRAW_FIELDS(KeptMask, mask, vocab, first_id, indices, statuses);
FAIRDRAW_FIELDS(ShardedRequest, rows, boundaries, shard, input, top_k_1_keeps_ties, words);
FAIRDRAW_FIELDS(ProcessLogitsRequest, logits, processing, allowed, active);
FAIRDRAW_FIELDS(ProcessLogitsResult, processed, statuses);

FAIRDRAW_FIELDS(TileIndexRequest, rows, input, temperature, allowed, active);
FAIRDRAW_FIELDS(TileIndexResult, keys, sums, statuses);

FAIRDRAW_FIELDS(DrawOptions, seed, offset, indices, num_samples);
FAIRDRAW_FIELDS(DrawResult, tokens, statuses);
FAIRDRAW_FIELDS(ChainSpeculativeRequest, draft_probs, draft_tokens, target_probs, batch,
                num_draft_tokens, seed, offset);
FAIRDRAW_FIELDS(ChainSpeculativeResult, tokens, accepted, emitted, statuses);

FAIRDRAW_FIELDS(LawFilters, temperature, top_k, top_p, min_p, tie_rule, filter_order);
FAIRDRAW_FIELDS(TargetRows, logits, filters, allowed, processing, batch, row_begins, active, seed,
                offset);
FAIRDRAW_FIELDS(AcceptChainRequest, target, max_draft, draft_tokens, draft_lengths, draft_law,
                draft, draft_filters, accept_rule);
FAIRDRAW_FIELDS(AcceptChainResult, tokens, accepted, statuses);
FAIRDRAW_FIELDS(AcceptTreeRequest, target, max_draft, max_depth, draft_tokens, parents,
                draft_lengths, draft_law, siblings, draft, draft_filters);
FAIRDRAW_FIELDS(AcceptTreeResult, tokens, nodes, accepted, statuses);

FAIRDRAW_FIELDS(BeamParameters, width, length_penalty, early_stopping, diversity_rate, max_tokens,
                end_ids);
FAIRDRAW_FIELDS(BeamPool, counts, scores, cumulative, lengths, beams, tokens);
FAIRDRAW_FIELDS(BeamHistory, tokens, parents, max_steps);
FAIRDRAW_FIELDS(BeamStepRequest, rows, input, requests, max_width, row_begins, live_beams, scores,
                generated, states, parameters);
FAIRDRAW_FIELDS(BeamStepResult, parents, tokens, scores, live_beams, generated, states, statuses,
                pool, history);
FAIRDRAW_FIELDS(BeamResultRequest, requests, max_width, best, pool, history, live_beams, scores,
                generated, states, length_penalty);
FAIRDRAW_FIELDS(BeamSequences, tokens, lengths, scores, cumulative, statuses);

FAIRDRAW_FIELDS(StopCriteria, eos_id, ignore_eos, stop_ids, stop_sequences, stop_sequence_lengths,
                min_tokens, max_tokens);
FAIRDRAW_FIELDS(StopRequest, requests, vocab, step_tokens, tokens_per_step, output, output_lengths,
                criteria, active);
FAIRDRAW_FIELDS(StopResult, reasons, kept, matched, matched_lengths, output_lengths, statuses);

FAIRDRAW_FIELDS(LogprobStep, logprobs, tokens_per_step, kept);
FAIRDRAW_FIELDS(BestOfRequest, prompts, candidates, n, cumulative, lengths, length_penalty,
                statuses);
FAIRDRAW_FIELDS(BestOfResult, chosen, scores, statuses);

#undef FAIRDRAW_FIELDS

/// Returns the name with number `index` in a comma-separated list.
inline std::string name_in(const std::string& names, std::size_t index) {
  std::size_t begin = 0;
  for (; index > 0; --index) begin = names.find(',', begin) + 1;
  begin = names.find_first_not_of(' ', begin);
  return names.substr(begin, names.find(',', begin) - begin);
}

}  // namespace fairdraw::suites
