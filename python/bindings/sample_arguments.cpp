#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

std::int32_t checked_samples(std::int32_t num_samples) {
  if (num_samples < 1) {
    throw_value_error(fmt::format("num_samples is {}; allowed: >= 1", num_samples));
  }
  return num_samples;
}

}  // namespace

SampleArguments::SampleArguments(const SampleInputs& inputs, const SampleOutputs& outputs)
    : rows_(rows_of("logits", inputs.logits)),
      place_(place_of(rows_.array, inputs.stream, inputs.workspace)),
      options_(inputs.seed, inputs.offset, inputs.indices, checked_samples(inputs.num_samples),
               place_),
      temperature_(temperature_of(inputs.temperature, place_)),
      top_p_(probability("top_p", inputs.top_p, place_)),
      min_p_(probability("min_p", inputs.min_p, place_)),
      top_k_(top_k_of(inputs.top_k, place_)) {
  request.logits = rows_.view;
  request.temperature = temperature_.value;
  request.top_k = top_k_.value;
  request.top_p = top_p_.value;
  request.min_p = min_p_.value;
  request.seed = options_.draw.seed;
  request.offset = options_.draw.offset;
  request.indices = options_.draw.indices;
  request.num_samples = inputs.num_samples;
  request.purpose = inputs.purpose;
  request.tie_rule = inputs.tie_rule;
  request.filter_order = inputs.order;
  const std::int64_t vocab = rows_.view.vocab;
  if (!inputs.allowed.is_none()) {
    allowed_ = input_array("allowed", inputs.allowed, &place_);
    request.allowed = bit_rows<const std::uint32_t>("allowed", allowed_, vocab);
  }
  if (!inputs.active.is_none()) {
    active_ = input_array("active", inputs.active, &place_);
    request.active = flags_of("active", active_);
  }

  const std::int64_t count = options_.outputs(rows_.view);
  drawn_ = count * inputs.num_samples;
  tokens_.emplace("out", outputs.tokens, drawn_, place_);
  statuses_.emplace("statuses", outputs.statuses, count, place_);
  support_.emplace("support_size", outputs.support_size, count, place_);
  logprob_.emplace("logprob", outputs.logprob, drawn_, place_);
  filtered_.emplace("logprob_filtered", outputs.logprob_filtered, drawn_, place_);
  result.tokens = tokens_->view;
  result.statuses = statuses_->view;
  result.support_size = support_->view;
  result.logprob = logprob_->view;
  result.logprob_filtered = filtered_->view;
  if (!outputs.mask.is_none()) {
    mask_ = nb::cast<OutputArray>(outputs.mask);
    result.mask = bit_rows<std::uint32_t>("mask", mask_, vocab);
  }
  if (!outputs.probs.is_none()) {
    result.probs = float_rows("probs", outputs.probs, rows_.view, place_, probs_);
  }
  reports_.emplace(outputs.reports, count, drawn_, rows_.view, place_);
  result.logprobs = reports_->view;
}

}  // namespace fairdraw::python
