// In a build without serving, this stub replaces the beam search step, and benchmarks of beam
// search end with its error.
#include "fairdraw/beam_search.h"

namespace fairdraw {

Error beam_search_step(const BeamStepRequest&, const BeamStepResult&, const Execution&) {
  return {ErrorCode::unsupported, "beam search is not in this build (FAIRDRAW_SERVING is OFF)"};
}

}  // namespace fairdraw
