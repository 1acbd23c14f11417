// Binds the operations of fairdraw/sample.h, fairdraw/sampling.h and fairdraw/cuda.h, which work on
// arrays.
#include <fmt/format.h>

#include <utility>

#include "fairdraw/cuda.h"
#include "fairdraw/log_probabilities.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/tile_index.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/row_operation_arguments.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

void softmax_rows(const Named& named) {
  const SoftmaxArguments given(named);
  run(named, given.place, [&](const auto& how) {
    return softmax(given.rows.view, given.temperature.value, given.probs, given.statuses.view, how);
  });
}

/// Draws one token per output. A filter that is None is off. min_p is supported only alone, and
/// only with probabilities.
void draw(const Named& given) {
  const bool from_probs = given.as<TileInput>("input") == TileInput::probs;
  const Rows rows = rows_of(from_probs ? "probs" : "logits", given["rows"]);
  const Place place = place_of(given, rows.array);
  const Options options(given, 1, place);
  Parameter<std::int32_t> top_k;
  Parameter<float> top_p, min_p;
  top_p.value = 1.0F;
  if (given.has("top_k")) top_k = top_k_of(given["top_k"], place);
  if (given.has("top_p")) top_p = probability("top_p", given["top_p"], place);
  const bool by_min_p = given.has("min_p");
  if (by_min_p) min_p = probability("min_p", given["min_p"], place);
  const Rules<FilterOrder> order("filter_apply_order", given["filter_apply_order"], place);
  const std::int64_t outputs = options.outputs(rows.view);
  const Output<std::int32_t> token("tokens", given["tokens"], outputs, place);
  const Statuses status("statuses", given["statuses"], outputs, place);
  const DrawResult result{token.view, status.view};
  run(given, place, [&](const auto& how) {
    if (by_min_p) {
      return min_p_sampling_from_probs(rows.view, min_p.value, options.draw, result, how);
    }
    return from_probs ? top_k_top_p_sampling_from_probs(rows.view, top_k.value, top_p.value,
                                                        order.value, options.draw, result, how)
                      : top_k_top_p_sampling_from_logits(rows.view, top_k.value, top_p.value,
                                                         order.value, options.draw, result, how);
  });
}

void top_k_mask_rows(const Named& named) {
  const TopKMaskArguments given(named);
  const RowsView& rows = given.rows.view;
  run(named, given.place, [&](const auto& how) {
    return top_k_mask_logits(rows, given.top_k.value, given.masked.data(), rows.vocab,
                             given.statuses.view, how);
  });
}

void renorm_rows(const Named& named) {
  const RenormArguments given(named);
  run(named, given.place, [&](const auto& how) {
    const RowsView& rows = given.rows.view;
    return given.by_top_k ? top_k_renorm_probs(rows, given.top_k.value, given.renormalised,
                                               given.statuses.view, how)
                          : top_p_renorm_probs(rows, given.top_p.value, given.renormalised,
                                               given.statuses.view, how);
  });
}

View<const std::int32_t> token_ids_of(nb::handle object, std::int64_t size, const Place& place,
                                      InputArray& keep) {
  keep = input_array("token_ids", object, &place);
  const auto count = static_cast<std::int64_t>(keep.size());
  if (keep.dtype() != nb::dtype<std::int32_t>() || !is_contiguous(keep) || count != size) {
    throw_type_error(
        fmt::format("token_ids holds {} values of {}; {} of int32 or int64 are needed, "
                    "contiguous",
                    count, dtype_name(keep.dtype()), size));
  }
  return {static_cast<const std::int32_t*>(keep.data()), size};
}

/// Returns the place of the call, with a workspace that is large enough for the call. The size of
/// the workspace depends on the requested outputs.
Place place_with_room(const Named& given, const SampleArguments& arguments) {
  Place place = arguments.place();
  bring_workspace(place, given["workspace"],
                  cuda::workspace_bytes(arguments.request, arguments.result.logprobs));
  return place;
}

void sample_rows(const Named& given) {
  const SampleArguments arguments(given);
  run(given, place_with_room(given, arguments),
      [&](const auto& how) { return sample(arguments.request, arguments.result, how); });
}

void log_probabilities_of(const Named& given) {
  const SampleArguments arguments(given);
  const Place place = place_with_room(given, arguments);
  InputArray keep;
  const View<const std::int32_t> ids =
      token_ids_of(given["token_ids"], arguments.drawn(), place, keep);
  const SampleResult& result = arguments.result;
  run(given, place, [&](const auto& how) {
    return log_probabilities(arguments.request, ids, result.logprobs, result.statuses, how);
  });
}

}  // namespace

void bind_operations(nb::module_& module) {
  define(module, "softmax", &softmax_rows);
  define(module, "draw", &draw);
  define(module, "top_k_mask_logits", &top_k_mask_rows);
  define(module, "renorm_probs", &renorm_rows);
  define(module, "sample", &sample_rows);
  define(module, "log_probabilities", &log_probabilities_of);
  module.def(
      "cuda_workspace_bytes", [](std::int64_t rows) { return cuda::workspace_bytes(rows); },
      nb::arg("rows"));
  module.def("why_no_cuda", [] {
    const std::string reason = cuda::why_not_available();
    return nb::str(reason.c_str());
  });
}

}  // namespace fairdraw::python
