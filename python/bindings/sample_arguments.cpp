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

SampleArguments::SampleArguments(const Named& given)
    : given_(given),
      rows_(rows_of("logits", given["logits"])),
      place_(place_of(given, rows_.array)),
      options_(given, checked_samples(given.as<std::int32_t>("num_samples")), place_),
      temperature_(temperature_of(given["temperature"], place_)),
      top_p_(probability("top_p", given["top_p"], place_)),
      min_p_(probability("min_p", given["min_p"], place_)),
      top_k_(top_k_of(given["top_k"], place_)),
      tie_rule_("tie_rule", given["tie_rule"], place_),
      filter_order_("filter_apply_order", given["filter_apply_order"], place_),
      processing_(given["processing"], place_),
      request{.logits = rows_.view,
              .temperature = temperature_.value,
              .top_k = top_k_.value,
              .top_p = top_p_.value,
              .min_p = min_p_.value,
              .seed = options_.draw.seed,
              .offset = options_.draw.offset,
              .tie_rule = tie_rule_.value,
              .filter_order = filter_order_.value,
              .allowed = {},
              .processing = processing_.view,
              .active = {},
              .indices = options_.draw.indices,
              .num_samples = options_.draw.num_samples,
              .purpose = given.as<Purpose>("purpose")} {
  read_parameter("top_n_sigma", given["top_n_sigma"], place_, top_n_sigma_);
  const float sigmas = top_n_sigma_.value.scalar;
  if (!(sigmas >= 0 || sigmas == -1)) {
    throw_value_error(
        fmt::format("top_n_sigma is {}; allowed: >= 0, or -1 (-1, 0 and inf are off)", sigmas));
  }
  // Logits processing has a top_n_sigma of its own for each row.
  if (!given.has("processing")) request.processing.top_n_sigma = top_n_sigma_.value;
  const std::int64_t vocab = rows_.view.vocab;
  if (given.has("allowed")) {
    allowed_ = input_array("allowed", given["allowed"], &place_);
    request.allowed = bit_rows<const std::uint32_t>("allowed", allowed_, vocab);
  }
  if (given.has("active")) {
    active_ = input_array("active", given["active"], &place_);
    request.active = flags_of("active", active_);
  }

  const std::int64_t count = options_.outputs(rows_.view);
  drawn_ = count * request.num_samples;
  result.tokens = given.output<std::int32_t>("tokens", drawn_, place_, "out");
  result.statuses = given.statuses(count, place_);
  result.support_size = given.output<std::int32_t>("support_size", count, place_);
  result.logprob = given.output<float>("logprob", drawn_, place_);
  result.logprob_filtered = given.output<float>("logprob_filtered", drawn_, place_);
  if (given.has("mask")) {
    mask_ = nb::cast<OutputArray>(given["mask"]);
    result.mask = bit_rows<std::uint32_t>("mask", mask_, vocab);
  }
  if (given.has("probs")) {
    result.probs = float_rows("probs", given["probs"], rows_.view, place_, probs_);
  }
  if (given.has("reports")) read_reports(count);
}

/// Reads the arguments of the log-probabilities that engines report.
void SampleArguments::read_reports(std::int64_t outputs) {
  const Named& given = reports_.emplace("reports", given_["reports"]);
  LogprobsResult& view = result.logprobs;
  view.mode = given.as<LogprobsMode>("logprobs_mode");
  view.rank_rule = given.as<RankRule>("rank_rule");
  view.top_n = given.as<std::int32_t>("top_n");
  view.values = given.output<float>("values", drawn_, place_);
  view.ranks = given.output<std::int32_t>("ranks", drawn_, place_);
  view.top_ids = given.output<std::int32_t>("top_ids", outputs * view.top_n, place_);
  view.top_values = given.output<float>("top_values", outputs * view.top_n, place_);
  if (given.has("all")) {
    view.all = float_rows("all", given["all"], rows_.view, place_, report_rows_);
  }
  given.expect_all_read();
}

}  // namespace fairdraw::python
