// sample_with_kept_sets and kept_sets_of_mask (fairdraw/kept_sets.h, fairdraw/cuda_kept_sets.h),
// for fairdraw/kept_sets.py.
#include "fairdraw/kept_sets.h"

#include "fairdraw/cuda_kept_sets.h"
#include "python/bindings/bindings.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

void run_with_kept_sets(const SampleInputs& inputs, const SampleOutputs& outputs,
                        nb::handle token_ids, nb::handle offsets, nb::handle overflow,
                        std::int64_t room, nb::handle allocate) {
  const SampleArguments arguments(inputs, outputs);
  Place place = arguments.place();
  const std::int64_t count = arguments.drawn() / inputs.num_samples;
  const Output<std::int32_t> ids("token_ids", token_ids, room, place);
  const Output<std::int64_t> begins("offsets", offsets, count + 1, place);
  const Output<std::uint8_t> did_not_fit("overflow", overflow, count, place);
  const KeptSets kept{ids.view, begins.view, did_not_fit.view};
  bring_workspace(place, allocate,
                  cuda::workspace_bytes(arguments.request, arguments.result.logprobs, kept));
  run(place, [&](const auto& how) {
    return sample_with_kept_sets(arguments.request, arguments.result, kept, how);
  });
}

void pack_mask(nb::handle mask, std::int64_t vocab, std::int32_t first_id, nb::handle indices,
               nb::handle statuses, nb::handle token_ids, nb::handle offsets, nb::handle overflow,
               std::int64_t room, std::uint64_t stream, nb::handle allocate) {
  const InputArray words = input_array("mask", mask, nullptr);
  Place place = place_of(words, stream, nb::none());
  KeptMask rows;
  rows.mask = bit_rows<const std::uint32_t>("mask", words, vocab);
  rows.vocab = vocab;
  rows.first_id = first_id;
  Indices of_outputs;
  read_indices("indices", indices, place, of_outputs);
  rows.indices = of_outputs.view;
  const Input<RowStatus, std::int32_t> outcomes("statuses", statuses, place);
  rows.statuses = outcomes.view;
  const std::int64_t count = rows.indices.given() ? rows.indices.size : rows.mask.rows;
  const Output<std::int32_t> ids("token_ids", token_ids, room, place);
  const Output<std::int64_t> begins("offsets", offsets, count + 1, place);
  const Output<std::uint8_t> did_not_fit("overflow", overflow, count, place);
  const KeptSets kept{ids.view, begins.view, did_not_fit.view};
  bring_workspace(place, allocate, cuda::workspace_bytes(rows));
  run(
      place, [&](const auto&) { return kept_sets_of_mask(rows, kept); },
      [&](const auto& how) { return cuda::kept_sets_of_mask(rows, kept, how); });
}

}  // namespace

void bind_kept_sets(nb::module_& module) {
  using Handle = nb::handle;
  define(
      module, "sample_with_kept_sets",
      [](Handle logits, Handle temperature, Handle top_k, Handle top_p, Handle min_p, Handle seed,
         Handle offset, Handle indices, std::int32_t num_samples, TieRule tie_rule,
         FilterOrder order, Purpose purpose, Handle allowed, Handle active, Handle tokens,
         Handle statuses, Handle logprob_filtered, Handle token_ids, Handle offsets,
         Handle overflow, std::int64_t room, std::uint64_t stream, Handle allocate) {
        const nb::object none = nb::none();
        run_with_kept_sets({logits, temperature, top_k, top_p, min_p, seed, offset, indices,
                            num_samples, tie_rule, order, purpose, allowed, active, stream, none},
                           {tokens, statuses, none, none, logprob_filtered, none, none, none},
                           token_ids, offsets, overflow, room, allocate);
      },
      "logits", "temperature", "top_k", "top_p", "min_p", "seed", "offset", "indices",
      "num_samples", "tie_rule", "filter_order", "purpose", "allowed", "active", "tokens",
      "statuses", "logprob_filtered", "token_ids", "offsets", "overflow", "room", "stream",
      "allocate");
  define(module, "kept_sets_of_mask", &pack_mask, "mask", "vocab", "first_id", "indices",
         "statuses", "token_ids", "offsets", "overflow", "room", "stream", "allocate");
}

}  // namespace fairdraw::python
