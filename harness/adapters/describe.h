// Declares the abilities of the built-in samplers, which are the same on every backend.
#pragma once

#include <string>
#include <utility>

#include "harness/contract/sampler.h"

namespace fairdraw::harness {

inline SamplerDescription describe(std::string name) {
  SamplerDescription description;
  description.name = std::move(name);
  description.version = std::string("fairdraw ") + FAIRDRAW_VERSION;
  description.semantics = "fairdraw";
  description.exact_integer = true;
  description.per_request_seeds = true;
  description.float16 = description.bfloat16 = true;
  description.from_probs = true;
  description.allowed_mask = description.active_rows = true;
  description.indices = description.num_samples = true;
  description.lowest_id_ties = description.joint_order = true;
  description.reports_status = description.reports_support = true;
  description.reports_mask = description.reports_probs = true;
  description.reports_logprobs = true;
  return description;
}

/// Declares the abilities of a sampler that accepts drafts.
inline void declare_drafts(SamplerDescription& description) {
  description.chains = true;
  description.acceptance_rule = AcceptanceRule::token_wise;
  description.speculation = description.draft_trees = description.draft_tree_laws = true;
  description.speculation_processing = true;
}

}  // namespace fairdraw::harness
