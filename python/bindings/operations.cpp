// The operations of fairdraw/sample.h, fairdraw/sampling.h and fairdraw/cuda.h on arrays.
#include <fmt/format.h>

#include <utility>

#include "fairdraw/cuda.h"
#include "fairdraw/log_probabilities.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/row_operation_arguments.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

void softmax_rows(Handle logits, Handle temperature, Handle probs, Handle statuses,
                  std::uint64_t stream, Handle workspace) {
  const SoftmaxArguments given(logits, temperature, probs, statuses, stream, workspace);
  run(given.place, [&](const auto& how) {
    return softmax(given.rows.view, given.temperature.value, given.probs, given.statuses.view, how);
  });
}

/// One token an output. A filter that is None is off; min_p comes alone, and with probabilities.
void draw(bool from_probs, Handle rows_object, Handle top_k_object, Handle top_p_object,
          Handle min_p_object, FilterOrder order, Handle seed, Handle offset, Handle indices,
          Handle tokens, Handle statuses, std::uint64_t stream, Handle workspace) {
  const Rows rows = rows_of(from_probs ? "probs" : "logits", rows_object);
  const Place place = place_of(rows.array, stream, workspace);
  const Options options(seed, offset, indices, 1, place);
  Parameter<std::int32_t> top_k;
  Parameter<float> top_p, min_p;
  top_p.value = 1.0F;
  if (!top_k_object.is_none()) top_k = top_k_of(top_k_object, place);
  if (!top_p_object.is_none()) top_p = probability("top_p", top_p_object, place);
  const bool by_min_p = !min_p_object.is_none();
  if (by_min_p) min_p = probability("min_p", min_p_object, place);
  const std::int64_t outputs = options.outputs(rows.view);
  const Output<std::int32_t> token("tokens", tokens, outputs, place);
  const Statuses status("statuses", statuses, outputs, place);
  const DrawResult result{token.view, status.view};
  run(place, [&](const auto& how) {
    if (by_min_p) {
      return min_p_sampling_from_probs(rows.view, min_p.value, options.draw, result, how);
    }
    return from_probs ? top_k_top_p_sampling_from_probs(rows.view, top_k.value, top_p.value, order,
                                                        options.draw, result, how)
                      : top_k_top_p_sampling_from_logits(rows.view, top_k.value, top_p.value, order,
                                                         options.draw, result, how);
  });
}

void top_k_mask_rows(Handle logits, Handle top_k, Handle masked, Handle statuses,
                     std::uint64_t stream, Handle workspace) {
  const TopKMaskArguments given(logits, top_k, masked, statuses, stream, workspace);
  const RowsView& rows = given.rows.view;
  run(given.place, [&](const auto& how) {
    return top_k_mask_logits(rows, given.top_k.value, given.masked.data(), rows.vocab,
                             given.statuses.view, how);
  });
}

void renorm_rows(bool by_top_k, Handle probs, Handle parameter, Handle renormalised,
                 Handle statuses, std::uint64_t stream, Handle workspace) {
  const RenormArguments given(by_top_k, probs, parameter, renormalised, statuses, stream,
                              workspace);
  run(given.place, [&](const auto& how) {
    const RowsView& rows = given.rows.view;
    return by_top_k ? top_k_renorm_probs(rows, given.top_k.value, given.renormalised,
                                         given.statuses.view, how)
                    : top_p_renorm_probs(rows, given.top_p.value, given.renormalised,
                                         given.statuses.view, how);
  });
}

View<const std::int32_t> token_ids_of(Handle object, std::int64_t size, const Place& place,
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

void sample_rows(const SampleInputs& inputs, const SampleOutputs& outputs, Handle token_ids) {
  const SampleArguments arguments(inputs, outputs);
  const SampleRequest& request = arguments.request;
  const SampleResult& result = arguments.result;
  const Place& place = arguments.place();
  if (!token_ids.is_none()) {
    InputArray keep;
    const View<const std::int32_t> ids = token_ids_of(token_ids, arguments.drawn(), place, keep);
    run(place, [&](const auto& how) {
      return log_probabilities(request, ids, result.logprobs, result.statuses, how);
    });
    return;
  }
  run(place, [&](const auto& how) { return sample(request, result, how); });
}

/// Enough for every operation over so many rows; with reports of log-probabilities, of rows of
/// `vocab` values.
std::int64_t workspace_for_reports(std::int64_t rows, std::int64_t vocab) {
  SampleRequest request;
  request.logits.rows = rows;
  request.logits.vocab = vocab;
  float value = 0;
  LogprobsResult reports;
  reports.values = {&value, 1};
  return cuda::workspace_bytes(request, reports);
}

}  // namespace

void bind_operations(nb::module_& module) {
  define(module, "softmax", &softmax_rows, "logits", "temperature", "probs", "statuses", "stream",
         "workspace");
  define(module, "draw", &draw, "from_probs", "rows", "top_k", "top_p", "min_p", "filter_order",
         "seed", "offset", "indices", "tokens", "statuses", "stream", "workspace");
  define(module, "top_k_mask_logits", &top_k_mask_rows, "logits", "top_k", "masked", "statuses",
         "stream", "workspace");
  define(module, "renorm_probs", &renorm_rows, "by_top_k", "probs", "parameter", "renormalised",
         "statuses", "stream", "workspace");
  define(
      module, "sample",
      [](Handle logits, Handle temperature, Handle top_k, Handle top_p, Handle min_p, Handle seed,
         Handle offset, Handle indices, std::int32_t num_samples, TieRule tie_rule,
         FilterOrder order, Purpose purpose, Handle allowed, Handle active, Handle tokens,
         Handle statuses, Handle support_size, Handle logprob, Handle logprob_filtered, Handle mask,
         Handle probs, Handle reports, Handle token_ids, std::uint64_t stream, Handle workspace) {
        sample_rows(
            {logits, temperature, top_k, top_p, min_p, seed, offset, indices, num_samples, tie_rule,
             order, purpose, allowed, active, stream, workspace},
            {tokens, statuses, support_size, logprob, logprob_filtered, mask, probs, reports},
            token_ids);
      },
      "logits", "temperature", "top_k", "top_p", "min_p", "seed", "offset", "indices",
      "num_samples", "tie_rule", "filter_order", "purpose", "allowed", "active", "tokens",
      "statuses", "support_size", "logprob", "logprob_filtered", "mask", "probs", "reports",
      "token_ids", "stream", "workspace");
  module.def("cuda_workspace_bytes", &workspace_for_reports, nb::arg("rows"), nb::arg("vocab") = 0);
  module.def("why_no_cuda", [] {
    const std::string reason = cuda::why_not_available();
    return nb::str(reason.c_str());
  });
}

}  // namespace fairdraw::python
