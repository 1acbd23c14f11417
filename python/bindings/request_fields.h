// The fields of fairdraw/request_parameters.h by their names: one list a struct, from which they
// are read out of Python's dictionaries and written into them.
//
// fairdraw/request_parameters.py has dataclasses of the same names and defaults; a test compares.
#pragma once

#include "fairdraw/request_parameters.h"

namespace fairdraw::python {

#define FAIRDRAW_FIELD(name) visit(#name, r.name)

template <class Visit>
void visit_fields(VllmRequest& r, Visit visit) {
  FAIRDRAW_FIELD(n);
  FAIRDRAW_FIELD(presence_penalty);
  FAIRDRAW_FIELD(frequency_penalty);
  FAIRDRAW_FIELD(repetition_penalty);
  FAIRDRAW_FIELD(temperature);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(seed);
  FAIRDRAW_FIELD(stop_token_ids);
  FAIRDRAW_FIELD(ignore_eos);
  FAIRDRAW_FIELD(max_tokens);
  FAIRDRAW_FIELD(min_tokens);
  FAIRDRAW_FIELD(logprobs);
  FAIRDRAW_FIELD(logit_bias);
  FAIRDRAW_FIELD(allowed_token_ids);
  FAIRDRAW_FIELD(bad_words);
}

template <class Visit>
void visit_fields(SglangRequest& r, Visit visit) {
  FAIRDRAW_FIELD(max_new_tokens);
  FAIRDRAW_FIELD(stop_token_ids);
  FAIRDRAW_FIELD(temperature);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(frequency_penalty);
  FAIRDRAW_FIELD(presence_penalty);
  FAIRDRAW_FIELD(repetition_penalty);
  FAIRDRAW_FIELD(min_new_tokens);
  FAIRDRAW_FIELD(n);
  FAIRDRAW_FIELD(ignore_eos);
  FAIRDRAW_FIELD(sampling_seed);
  FAIRDRAW_FIELD(logit_bias);
}

template <class Visit>
void visit_fields(TensorRtLlmRequest& r, Visit visit) {
  FAIRDRAW_FIELD(max_tokens);
  FAIRDRAW_FIELD(stop_token_ids);
  FAIRDRAW_FIELD(stop_words);
  FAIRDRAW_FIELD(bad_words);
  FAIRDRAW_FIELD(n);
  FAIRDRAW_FIELD(best_of);
  FAIRDRAW_FIELD(use_beam_search);
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(top_p_min);
  FAIRDRAW_FIELD(top_p_decay);
  FAIRDRAW_FIELD(top_p_reset_ids);
  FAIRDRAW_FIELD(seed);
  FAIRDRAW_FIELD(temperature);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(min_tokens);
  FAIRDRAW_FIELD(beam_search_diversity_rate);
  FAIRDRAW_FIELD(repetition_penalty);
  FAIRDRAW_FIELD(presence_penalty);
  FAIRDRAW_FIELD(frequency_penalty);
  FAIRDRAW_FIELD(length_penalty);
  FAIRDRAW_FIELD(early_stopping);
  FAIRDRAW_FIELD(no_repeat_ngram_size);
  FAIRDRAW_FIELD(logprobs);
  FAIRDRAW_FIELD(ignore_eos);
}

template <class Visit>
void visit_fields(HuggingFaceRequest& r, Visit visit) {
  FAIRDRAW_FIELD(do_sample);
  FAIRDRAW_FIELD(temperature);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(repetition_penalty);
  FAIRDRAW_FIELD(typical_p);
  FAIRDRAW_FIELD(epsilon_cutoff);
  FAIRDRAW_FIELD(eta_cutoff);
  FAIRDRAW_FIELD(no_repeat_ngram_size);
  FAIRDRAW_FIELD(num_beams);
  FAIRDRAW_FIELD(num_beam_groups);
  FAIRDRAW_FIELD(num_return_sequences);
  FAIRDRAW_FIELD(length_penalty);
  FAIRDRAW_FIELD(diversity_penalty);
  FAIRDRAW_FIELD(early_stopping);
  FAIRDRAW_FIELD(prompt_tokens);
  FAIRDRAW_FIELD(max_new_tokens);
  FAIRDRAW_FIELD(min_new_tokens);
  FAIRDRAW_FIELD(max_length);
  FAIRDRAW_FIELD(min_length);
  FAIRDRAW_FIELD(eos_token_id);
  FAIRDRAW_FIELD(bad_words_ids);
}

template <class Visit>
void visit_fields(MaxRequest& r, Visit visit) {
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(temperature);
  FAIRDRAW_FIELD(thinking_temperature);
  FAIRDRAW_FIELD(frequency_penalty);
  FAIRDRAW_FIELD(presence_penalty);
  FAIRDRAW_FIELD(repetition_penalty);
  FAIRDRAW_FIELD(max_new_tokens);
  FAIRDRAW_FIELD(min_new_tokens);
  FAIRDRAW_FIELD(ignore_eos);
  FAIRDRAW_FIELD(stop_token_ids);
  FAIRDRAW_FIELD(seed);
}

template <class Visit>
void visit_fields(LlamaCppRequest& r, Visit visit) {
  FAIRDRAW_FIELD(seed);
  FAIRDRAW_FIELD(min_keep);
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(xtc_probability);
  FAIRDRAW_FIELD(typ_p);
  FAIRDRAW_FIELD(temp);
  FAIRDRAW_FIELD(dynatemp_range);
  FAIRDRAW_FIELD(penalty_last_n);
  FAIRDRAW_FIELD(penalty_repeat);
  FAIRDRAW_FIELD(penalty_freq);
  FAIRDRAW_FIELD(penalty_present);
  FAIRDRAW_FIELD(dry_multiplier);
  FAIRDRAW_FIELD(top_n_sigma);
  FAIRDRAW_FIELD(mirostat);
  FAIRDRAW_FIELD(samplers);
  FAIRDRAW_FIELD(ignore_eos);
  FAIRDRAW_FIELD(logit_bias);
  FAIRDRAW_FIELD(n_predict);
}

template <class Visit>
void visit_fields(RequestParameters& r, Visit visit) {
  FAIRDRAW_FIELD(greedy);
  FAIRDRAW_FIELD(temperature);
  FAIRDRAW_FIELD(top_k);
  FAIRDRAW_FIELD(top_p);
  FAIRDRAW_FIELD(min_p);
  FAIRDRAW_FIELD(tie_rule);
  visit("filter_apply_order", r.filter_order);  // the argument's name in Python
  FAIRDRAW_FIELD(seed);
  FAIRDRAW_FIELD(child_seed_rule);
  FAIRDRAW_FIELD(repetition_penalty);
  FAIRDRAW_FIELD(frequency_penalty);
  FAIRDRAW_FIELD(presence_penalty);
  FAIRDRAW_FIELD(repetition_of_prompt);
  FAIRDRAW_FIELD(counts_of_prompt);
  FAIRDRAW_FIELD(penalty_window);
  FAIRDRAW_FIELD(logit_bias);
  FAIRDRAW_FIELD(bad_words);
  FAIRDRAW_FIELD(allowed_ids);
  FAIRDRAW_FIELD(n);
  FAIRDRAW_FIELD(best_of);
  FAIRDRAW_FIELD(min_tokens);
  FAIRDRAW_FIELD(max_tokens);
  FAIRDRAW_FIELD(ignore_eos);
  FAIRDRAW_FIELD(stop_ids);
  FAIRDRAW_FIELD(stop_sequences);
  FAIRDRAW_FIELD(logprobs);
  FAIRDRAW_FIELD(beam_width);
  FAIRDRAW_FIELD(length_penalty);
  FAIRDRAW_FIELD(early_stopping);
  FAIRDRAW_FIELD(adjustments);
  FAIRDRAW_FIELD(differences);
}

#undef FAIRDRAW_FIELD

}  // namespace fairdraw::python
