#include "fairdraw/batch_request.h"

#include <string>

#include "common/arguments.h"
#include "fairdraw/parallel_sampling.h"

namespace fairdraw {
namespace {

Error unsupported(const char* field, const std::string& value, const std::string& allowed) {
  Error error = out_of_range(field, value, allowed);
  error.code = ErrorCode::unsupported;
  return error;
}

const char* name_of(TieRule rule) { return rule == TieRule::keep_all ? "keep_all" : "lowest_id"; }
const char* name_of(FilterOrder order) {
  return order == FilterOrder::top_k_first ? "top_k_first" : "joint";
}

/// Rules that a request brings and its state has once for all. Without a filter they say nothing.
Error check_rules(const RequestParameters& parameters, const BatchStateOptions& options) {
  const bool by_top_k = parameters.top_k != 0 && !parameters.greedy;
  if (by_top_k && parameters.tie_rule != options.tie_rule) {
    return unsupported("tie_rule", name_of(parameters.tie_rule),
                       std::string(name_of(options.tie_rule)) + ", the batch state's");
  }
  if (by_top_k && parameters.top_p < 1 && parameters.filter_order != options.filter_order) {
    return unsupported("filter_order", name_of(parameters.filter_order),
                       std::string(name_of(options.filter_order)) + ", the batch state's");
  }
  return {};
}

Error check_penalties(const RequestParameters& parameters) {
  const bool counted = parameters.frequency_penalty != 0 || parameters.presence_penalty != 0;
  if (counted && parameters.counts_of_prompt) {
    return unsupported("counts_of_prompt", "true", "false with frequency and presence penalties");
  }
  if ((counted || parameters.repetition_penalty != 1) && parameters.penalty_window != -1) {
    return unsupported("penalty_window", std::to_string(parameters.penalty_window),
                       "-1 (all tokens) with penalties");
  }
  return {};
}

}  // namespace

Error batch_request_from(const RequestParameters& parameters, const RequestContext& context,
                         const BatchStateOptions& options, BatchRequest& request) {
  if (Error error = check_rules(parameters, options)) return error;
  if (Error error = check_penalties(parameters)) return error;
  if (context.child < 0) return out_of_range("child", std::to_string(context.child), ">= 0");

  request = {};
  request.temperature = parameters.temperature;
  request.top_k = parameters.top_k;
  request.top_p = parameters.top_p;
  request.min_p = parameters.min_p;
  request.repetition_penalty = parameters.repetition_penalty;
  request.repetition_of_prompt = parameters.repetition_of_prompt;
  request.frequency_penalty = parameters.frequency_penalty;
  request.presence_penalty = parameters.presence_penalty;
  request.seed = child_seed(parameters.seed.value_or(context.fresh_seed),
                            static_cast<std::uint64_t>(context.child), parameters.child_seed_rule);
  request.min_tokens = parameters.min_tokens;
  request.stop_ids = parameters.stop_ids;
  if (context.eos_id >= 0 && !parameters.ignore_eos) request.stop_ids.push_back(context.eos_id);
  for (const auto& [token, bias] : parameters.logit_bias) request.bias.push_back({token, bias});
  request.bad_words = parameters.bad_words;
  request.allowed_ids = parameters.allowed_ids;
  request.prompt = context.prompt;
  return {};
}

}  // namespace fairdraw
