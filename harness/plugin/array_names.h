// The arrays of a call by name, for messages about addresses.
#pragma once

#include <vector>

#include "harness/contract/batch.h"

namespace fairdraw::harness::plugin {

struct NamedArray {
  const char* name;
  const void* first;
};

inline std::vector<NamedArray> array_names(const fairdraw_processing& processing) {
  return {{"repetition_penalty", processing.repetition_penalty},
          {"frequency_penalty", processing.frequency_penalty},
          {"presence_penalty", processing.presence_penalty},
          {"min_tokens", processing.min_tokens},
          {"prompt", processing.prompt.data},
          {"output", processing.output.data},
          {"prompt_mask", processing.prompt_mask},
          {"output_counts", processing.output_counts},
          {"output_lengths", processing.output_lengths},
          {"bias_ids", processing.bias_ids.data},
          {"bias_values", processing.bias_values},
          {"stop_ids", processing.stop_ids.data},
          {"bad_words", processing.bad_words.data},
          {"bad_word_lengths", processing.bad_word_lengths.data},
          {"allowed_ids", processing.allowed_ids.data}};
}

inline void add_given(std::vector<NamedArray>& names, const fairdraw_processing& processing) {
  for (const NamedArray& array : array_names(processing)) {
    if (array.first != nullptr) names.push_back(array);
  }
}

inline std::vector<NamedArray> array_names(const fairdraw_batch& batch) {
  std::vector<NamedArray> names = {{"logits", batch.logits},
                                   {"temperature", batch.temperature},
                                   {"top_k", batch.top_k},
                                   {"top_p", batch.top_p},
                                   {"min_p", batch.min_p},
                                   {"allowed", batch.allowed},
                                   {"active", batch.active},
                                   {"indices", batch.indices},
                                   {"seed", batch.seed},
                                   {"offset", batch.offset},
                                   {"words", batch.words},
                                   {"tokens", batch.tokens},
                                   {"statuses", batch.statuses},
                                   {"support_size", batch.support_size},
                                   {"logprob", batch.logprob},
                                   {"logprob_filtered", batch.logprob_filtered},
                                   {"mask", batch.mask},
                                   {"probs", batch.probs},
                                   {"report_values", batch.report_values},
                                   {"report_ranks", batch.report_ranks},
                                   {"report_top_ids", batch.report_top_ids},
                                   {"report_top_values", batch.report_top_values},
                                   {"report_all", batch.report_all}};
  add_given(names, batch.processing);
  return names;
}

inline std::vector<NamedArray> array_names(const fairdraw_chain& chain) {
  return {{"draft_probs", chain.draft_probs},
          {"draft_tokens", chain.draft_tokens},
          {"target_probs", chain.target_probs},
          {"seed", chain.seed},
          {"offset", chain.offset},
          {"accept_words", chain.accept_words},
          {"recover_words", chain.recover_words},
          {"bonus_words", chain.bonus_words},
          {"tokens", chain.tokens},
          {"accepted", chain.accepted},
          {"emitted", chain.emitted},
          {"statuses", chain.statuses}};
}

inline std::vector<NamedArray> array_names(const fairdraw_verification& call) {
  std::vector<NamedArray> names = {{"target", call.target},
                                   {"temperature", call.temperature},
                                   {"top_k", call.top_k},
                                   {"top_p", call.top_p},
                                   {"min_p", call.min_p},
                                   {"allowed", call.allowed},
                                   {"row_begins", call.row_begins},
                                   {"active", call.active},
                                   {"seed", call.seed},
                                   {"offset", call.offset},
                                   {"draft_tokens", call.draft_tokens},
                                   {"draft_lengths", call.draft_lengths},
                                   {"parents", call.parents},
                                   {"draft", call.draft},
                                   {"draft_temperature", call.draft_temperature},
                                   {"draft_top_k", call.draft_top_k},
                                   {"draft_top_p", call.draft_top_p},
                                   {"draft_min_p", call.draft_min_p},
                                   {"tokens", call.tokens},
                                   {"nodes", call.nodes},
                                   {"accepted", call.accepted},
                                   {"statuses", call.statuses}};
  add_given(names, call.processing);
  return names;
}

}  // namespace fairdraw::harness::plugin
