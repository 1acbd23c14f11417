// Binds the calls of serving, and the enums of serving's public headers under their C++ names.
#include "fairdraw/batch_state.h"
#include "fairdraw/beam_search.h"
#include "fairdraw/fused_sampling_processor.h"
#include "fairdraw/speculative.h"
#include "python/bindings/bindings.h"

namespace fairdraw::python {

namespace nb = nanobind;

void bind_serving(nb::module_& module) {
  module.attr("HAS_SERVING") = true;
  nb::enum_<DraftLaw>(module, "DraftLaw")
      .value("none", DraftLaw::none)
      .value("probs", DraftLaw::probs)
      .value("logits", DraftLaw::logits);
  nb::enum_<AcceptRule>(module, "AcceptRule")
      .value("token_wise", AcceptRule::token_wise)
      .value("block", AcceptRule::block);
  nb::enum_<SiblingSampling>(module, "SiblingSampling")
      .value("with_replacement", SiblingSampling::with_replacement)
      .value("without_replacement", SiblingSampling::without_replacement);
  nb::enum_<HistoryForm>(module, "HistoryForm")
      .value("lists", HistoryForm::lists)
      .value("dense", HistoryForm::dense);
  nb::enum_<StepRows>(module, "StepRows").value("last", StepRows::last).value("all", StepRows::all);
  module.attr("BEAMS_LIVE") = static_cast<std::int32_t>(BeamState::live);
  bind_batch_state(module);
  bind_cuda_fused_sampling_processor(module);
  bind_beam_search(module);
  bind_outputs_of_requests(module);
  bind_kept_sets(module);
  bind_sharded(module);
  bind_speculative(module);
  bind_watermark(module);
}

}  // namespace fairdraw::python
