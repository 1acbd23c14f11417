// Binds the enums of the kernels' public headers under their C++ names. Python finds members by the
// users' names, so that no order of members is written down twice. Also binds the names of the
// statuses.
#include "fairdraw/log_probabilities.h"
#include "fairdraw/types.h"
#include "python/bindings/bindings.h"

namespace fairdraw::python {

namespace nb = nanobind;

void bind_enums(nb::module_& module) {
  nb::enum_<TieRule>(module, "TieRule")
      .value("keep_all", TieRule::keep_all)
      .value("lowest_id", TieRule::lowest_id);
  nb::enum_<FilterOrder>(module, "FilterOrder")
      .value("top_k_first", FilterOrder::top_k_first)
      .value("joint", FilterOrder::joint);
  // All other purposes are only for the verification of drafts.
  nb::enum_<Purpose>(module, "Purpose").value("draw", Purpose::draw).value("draft", Purpose::draft);
  nb::enum_<LogprobsMode> modes(module, "LogprobsMode");
  for (const LogprobsMode mode :
       {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs, LogprobsMode::processed_logits,
        LogprobsMode::processed_logprobs}) {
    modes.value(to_string(mode), mode);
  }
  nb::enum_<RankRule> rules(module, "RankRule");
  for (const RankRule rule : {RankRule::position, RankRule::at_least}) {
    rules.value(to_string(rule), rule);
  }
  module.attr("NAN_INPUT") = static_cast<std::int32_t>(RowStatus::nan_input);
  module.attr("MAX_VOCAB") = kMaxVocab;
}

}  // namespace fairdraw::python
