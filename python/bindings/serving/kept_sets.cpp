// Binds sample_with_kept_sets and kept_sets_of_mask (fairdraw/kept_sets.h,
// fairdraw/cuda_kept_sets.h) for fairdraw/kept_sets.py.
#include "fairdraw/kept_sets.h"

#include "fairdraw/cuda_kept_sets.h"
#include "python/bindings/bindings.h"
#include "python/bindings/sample_arguments.h"
#include "python/bindings/serving/kept_sets_argument.h"

namespace fairdraw::python {
namespace {

void sample_rows(const Named& given) {
  const SampleArguments arguments(given);
  Place place = arguments.place();
  const SampleRequest& request = arguments.request;
  const Named sets("sets", given["sets"]);
  const KeptSets kept = arrays_of(sets, arguments.drawn() / request.num_samples, place);
  bring_workspace(place, given["workspace"],
                  cuda::workspace_bytes(request, arguments.result.logprobs, kept));
  run(given, place,
      [&](const auto& how) { return sample_with_kept_sets(request, arguments.result, kept, how); });
}

void pack_mask(const Named& given) {
  const InputArray words = input_array("mask", given["mask"], nullptr);
  Place place = place_of(given, words);
  KeptMask rows;
  rows.vocab = given.as<std::int64_t>("vocab");
  rows.mask = bit_rows<const std::uint32_t>("mask", words, rows.vocab);
  rows.first_id = given.as<std::int32_t>("first_id");
  Indices of_outputs;
  read_indices("indices", given["indices"], place, of_outputs);
  rows.indices = of_outputs.view;
  rows.statuses = given.input<RowStatus, std::int32_t>("statuses", place);
  const std::int64_t count = rows.indices.given() ? rows.indices.size : rows.mask.rows;
  const Named sets("sets", given["sets"]);
  const KeptSets kept = arrays_of(sets, count, place);
  bring_workspace(place, given["workspace"], cuda::workspace_bytes(rows));
  run(
      given, place, [&](const auto&) { return kept_sets_of_mask(rows, kept); },
      [&](const auto& how) { return cuda::kept_sets_of_mask(rows, kept, how); });
}

}  // namespace

void bind_kept_sets(nb::module_& module) {
  define(module, "sample_with_kept_sets", &sample_rows);
  define(module, "kept_sets_of_mask", &pack_mask);
}

}  // namespace fairdraw::python
