// Describes the arrays of the calls of serving, as call_arrays.h does for the other calls.
#pragma once

#include <cstdint>

#include "harness/contract/call_arrays.h"
#include "harness/contract/drafts.h"
#include "harness/contract/sequence.h"

namespace fairdraw::harness {

template <>
struct CallArrays<fairdraw_chain> {
  template <class Visit>
  static constexpr void each(const fairdraw_chain& call, const Visit& visit) {
    const std::int64_t batch = call.batch, drafts = batch * call.num_draft_tokens;
    const std::int64_t seeds = call.seed_is_scalar != 0 ? 1 : batch;
    const ArrayDescriber arrays(call, visit);
    arrays.required(FAIRDRAW_FIELD(draft_probs), drafts * call.vocab);
    arrays.required(FAIRDRAW_FIELD(draft_tokens), drafts);
    arrays.required(FAIRDRAW_FIELD(target_probs), (drafts + batch) * call.vocab);
    arrays.required(FAIRDRAW_FIELD(seed), seeds);
    arrays.required(FAIRDRAW_FIELD(offset), seeds);
    arrays.optional(FAIRDRAW_FIELD(accept_words), drafts);
    arrays.optional(FAIRDRAW_FIELD(recover_words), drafts);
    arrays.optional(FAIRDRAW_FIELD(bonus_words), batch);
    arrays.required(FAIRDRAW_FIELD(tokens), drafts + batch);
    arrays.optional(FAIRDRAW_FIELD(accepted), batch);
    arrays.optional(FAIRDRAW_FIELD(emitted), batch);
    arrays.optional(FAIRDRAW_FIELD(statuses), batch);
  }
};

template <>
struct CallArrays<fairdraw_verification> {
  template <class Visit>
  static constexpr void each(const fairdraw_verification& call, const Visit& visit) {
    const std::int64_t batch = call.batch, rows = call.rows, vocab = call.vocab;
    const std::int64_t seeds = call.seed_is_scalar != 0 ? 1 : batch;
    const ArrayDescriber arrays(call, visit);
    // `parents` must be visited first, because it says whether the call has trees, and `visit` may
    // set this pointer.
    arrays.optional(FAIRDRAW_FIELD(parents), call.places);
    const bool trees = call.parents != nullptr;
    const std::int64_t depth = trees ? call.max_depth : call.max_draft;
    arrays.required(FAIRDRAW_FIELD(target), rows * vocab);
    arrays.required(FAIRDRAW_FIELD(temperature), batch);
    arrays.required(FAIRDRAW_FIELD(top_k), batch);
    arrays.required(FAIRDRAW_FIELD(top_p), batch);
    arrays.required(FAIRDRAW_FIELD(min_p), batch);
    arrays.optional(FAIRDRAW_FIELD(allowed), rows * words_for(vocab));
    arrays.optional(FAIRDRAW_FIELD(row_begins), batch + 1);
    arrays.optional(FAIRDRAW_FIELD(active), batch);
    arrays.required(FAIRDRAW_FIELD(seed), seeds);
    arrays.required(FAIRDRAW_FIELD(offset), seeds);
    arrays.required(FAIRDRAW_FIELD(draft_tokens), call.places);
    arrays.optional(FAIRDRAW_FIELD(draft_lengths), batch);
    arrays.optional(FAIRDRAW_FIELD(draft), (trees ? rows : call.places) * vocab);
    arrays.optional(FAIRDRAW_FIELD(draft_temperature), batch);
    arrays.optional(FAIRDRAW_FIELD(draft_top_k), batch);
    arrays.optional(FAIRDRAW_FIELD(draft_top_p), batch);
    arrays.optional(FAIRDRAW_FIELD(draft_min_p), batch);
    arrays.required(FAIRDRAW_FIELD(tokens), batch * (depth + 1));
    arrays.optional(FAIRDRAW_FIELD(nodes), batch * depth);
    arrays.optional(FAIRDRAW_FIELD(accepted), batch);
    arrays.optional(FAIRDRAW_FIELD(statuses), batch);
    CallArrays<fairdraw_processing>::each_of(call, visit);
  }
};

template <>
struct CallArrays<fairdraw_event> {
  template <class Visit>
  static constexpr void each(const fairdraw_event& call, const Visit& visit) {
    const std::int64_t rows = call.rows;
    const ArrayDescriber arrays(call, visit);
    // All arrays of an event are optional, because the kind of the event decides which are given.
    arrays.optional(FAIRDRAW_FIELD(slot), rows);
    arrays.optional(FAIRDRAW_FIELD(temperature), rows);
    arrays.optional(FAIRDRAW_FIELD(top_k), rows);
    arrays.optional(FAIRDRAW_FIELD(top_p), rows);
    arrays.optional(FAIRDRAW_FIELD(min_p), rows);
    arrays.optional(FAIRDRAW_FIELD(seed), rows);
    arrays.optional(FAIRDRAW_FIELD(offset), rows);
    CallArrays<fairdraw_processing>::each_of(call, visit);
    arrays.optional(FAIRDRAW_FIELD(logits), rows * call.vocab);
    arrays.optional(FAIRDRAW_FIELD(allowed), rows * words_for(call.vocab));
    arrays.optional(FAIRDRAW_FIELD(tokens), rows);
    arrays.optional(FAIRDRAW_FIELD(statuses), rows);
  }
};

}  // namespace fairdraw::harness
