// Calls with kept sets, and kept_sets_of_mask (fairdraw/kept_sets.h, fairdraw/cuda_kept_sets.h),
// for fairdraw/kept_sets.py.
#include "fairdraw/kept_sets.h"

#include "fairdraw/cuda_kept_sets.h"
#include "python/bindings/bindings.h"
#include "python/bindings/sample_arguments.h"
#include "python/bindings/speculation_arguments.h"

namespace fairdraw::python {
namespace {

/// Their arrays: token_ids, offsets, overflow, and the room: how many ids.
KeptSets arrays_of(const Named& sets, std::int64_t outputs, const Place& place) {
  const KeptSets arrays{
      sets.output<std::int32_t>("token_ids", sets.as<std::int64_t>("room"), place),
      sets.output<std::int64_t>("offsets", outputs + 1, place),
      sets.output<std::uint8_t>("overflow", outputs, place)};
  sets.expect_all_read();
  return arrays;
}

void sample_rows(const Named& given) {
  const SampleArguments arguments(given);
  Place place = arguments.place();
  const SampleRequest& request = arguments.request;
  const Named sets("sets", given["sets"]);
  const KeptSets kept = arrays_of(sets, arguments.drawn() / request.num_samples, place);
  bring_workspace(place, given["workspace"],
                  cuda::workspace_bytes(request, arguments.result.logprobs, kept));
  run(given, place, [&](const auto& how) {
    return sample_with_kept_sets(request, arguments.result, kept, how);
  });
}

/// Sets of a call that verifies drafts, one for each place of its tokens. make_sets, called with
/// their number, gives their arrays.
template <class Arguments, class Call>
void run_drafts(const Named& given, const Arguments& arguments, const Call& call) {
  Place place = arguments.place();
  const std::int64_t places = arguments.result.tokens.size;
  const Named sets("sets", nb::object(given["make_sets"](places)));
  const KeptSets kept = arrays_of(sets, places, place);
  bring_workspace(place, given["workspace"], cuda::workspace_bytes(arguments.request, kept));
  run(given, place, [&](const auto& how) { return call(kept, how); });
}

void chains(const Named& given) {
  const ChainArguments arguments(given);
  run_drafts(given, arguments, [&](const KeptSets& kept, const auto& how) {
    return verify_chain_with_kept_sets(arguments.request, arguments.result, kept, how);
  });
}

void trees(const Named& given) {
  const TreeArguments arguments(given);
  run_drafts(given, arguments, [&](const KeptSets& kept, const auto& how) {
    return verify_tree_with_kept_sets(arguments.request, arguments.result, kept, how);
  });
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
  define(module, "verify_chain_with_kept_sets", &chains);
  define(module, "verify_tree_with_kept_sets", &trees);
  define(module, "kept_sets_of_mask", &pack_mask);
}

}  // namespace fairdraw::python
