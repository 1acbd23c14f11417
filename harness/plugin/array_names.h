// The arrays of a call by name, for messages about addresses.
#pragma once

#include <vector>

#include "harness/contract/batch.h"

namespace fairdraw::harness::plugin {

struct NamedArray {
  const char* name;
  const void* first;
};

inline std::vector<NamedArray> array_names(const fairdraw_batch& batch) {
  return {{"logits", batch.logits},     {"temperature", batch.temperature},
          {"top_k", batch.top_k},       {"top_p", batch.top_p},
          {"min_p", batch.min_p},       {"allowed", batch.allowed},
          {"active", batch.active},     {"indices", batch.indices},
          {"seed", batch.seed},         {"offset", batch.offset},
          {"words", batch.words},       {"tokens", batch.tokens},
          {"statuses", batch.statuses}, {"support_size", batch.support_size},
          {"logprob", batch.logprob},   {"logprob_filtered", batch.logprob_filtered},
          {"mask", batch.mask},         {"probs", batch.probs}};
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
  return {{"target", call.target},
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
}

}  // namespace fairdraw::harness::plugin
