// sample_with_kept_sets (fairdraw/kept_sets.h), for fairdraw/kept_sets.py.
#include "fairdraw/kept_sets.h"

#include "python/bindings/bindings.h"
#include "python/bindings/sample_arguments.h"

namespace fairdraw::python {
namespace {

void run_with_kept_sets(const SampleInputs& inputs, const SampleOutputs& outputs,
                        nb::handle token_ids, nb::handle offsets, nb::handle overflow) {
  const SampleArguments arguments(inputs, outputs);
  const Place& place = arguments.place();
  if (place.on_cuda()) throw_type_error("logits is on a GPU; kept sets are made on the CPU");
  const std::int64_t count = arguments.drawn() / inputs.num_samples;
  const auto room = static_cast<std::int64_t>(nb::cast<OutputArray>(token_ids).size());
  const Output<std::int32_t> ids("token_ids", token_ids, room, place);
  const Output<std::int64_t> begins("offsets", offsets, count + 1, place);
  const Output<std::uint8_t> did_not_fit("overflow", overflow, count, place);
  run_on_host([&] {
    return sample_with_kept_sets(arguments.request, arguments.result,
                                 {ids.view, begins.view, did_not_fit.view}, place.cpu);
  });
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
         Handle overflow) {
        const nb::object none = nb::none();
        run_with_kept_sets({logits, temperature, top_k, top_p, min_p, seed, offset, indices,
                            num_samples, tie_rule, order, purpose, allowed, active, 0, none},
                           {tokens, statuses, none, none, logprob_filtered, none, none, none},
                           token_ids, offsets, overflow);
      },
      "logits", "temperature", "top_k", "top_p", "min_p", "seed", "offset", "indices",
      "num_samples", "tie_rule", "filter_order", "purpose", "allowed", "active", "tokens",
      "statuses", "logprob_filtered", "token_ids", "offsets", "overflow");
}

}  // namespace fairdraw::python
