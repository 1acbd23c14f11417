// Binds the operations of fairdraw/watermark.h and fairdraw/cuda_watermark.h for
// fairdraw/watermark.py.
#include "fairdraw/watermark.h"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "fairdraw/cuda_watermark.h"
#include "python/bindings/bindings.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

template <class T>
PerRequest<T> each(View<const T> values) {
  return {values.data, values.size};
}

/// Window, number of the scheme, layers and share of green tokens.
using Rule = std::tuple<std::int32_t, std::uint32_t, std::int32_t, float>;

WatermarkRule rule_of(const Rule& rule) {
  const auto& [window, scheme, layers, green_share] = rule;
  return {window, static_cast<WatermarkScheme>(scheme), layers, green_share};
}

void sample_rows(const Named& given) {
  const SampleArguments arguments(given);
  Place place = arguments.place();
  Watermark watermark;
  watermark.key = each(given.input<std::uint64_t>("key", place));
  watermark.second_key = each(given.input<std::uint64_t>("second_key", place));
  watermark.second_share = given.as<float>("second_share");
  watermark.rule = rule_of(given.as<Rule>("rule"));
  watermark.green_bias = given.as<float>("green_bias");
  watermark.mask_repeated = each(given.input<std::uint8_t>("mask_repeated", place));
  bring_workspace(place, given["workspace"],
                  cuda::workspace_bytes(arguments.request, arguments.result.logprobs, watermark));
  run(given, place, [&](const auto& how) {
    return sample_marked(arguments.request, watermark, arguments.result, how);
  });
}

nb::tuple detect(const nb::object& tokens, const nb::object& keys, const Rule& rule) {
  const Input<std::int32_t> ids("tokens", tokens, Place());
  const Input<std::uint64_t> each_key("keys", keys, Place());
  WatermarkEvidence evidence;
  run_on_host([&] { return detect_watermark({ids.view, each_key.view, rule_of(rule)}, evidence); });
  return nb::make_tuple(evidence.scored, evidence.score, evidence.key, evidence.p_value,
                        evidence.log_e_value);
}

double threshold(const Rule& rule, std::int64_t scored, std::int64_t keys,
                 double false_positive_rate) {
  double score = 0;
  run_on_host(
      [&] { return watermark_threshold(rule_of(rule), scored, keys, false_positive_rate, score); });
  return score;
}

}  // namespace

void bind_watermark(nb::module_& module) {
  define(module, "sample_marked", &sample_rows);
  module.def("detect_watermark", &detect);
  module.def("watermark_threshold", &threshold);
}

}  // namespace fairdraw::python
