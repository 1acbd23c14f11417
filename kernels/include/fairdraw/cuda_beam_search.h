// Beam search on an NVIDIA GPU has the steps of fairdraw/beam_search.h and the contract of
// fairdraw/cuda.h. The header fairdraw/cuda_beam_result.h has the end of a search.
//
// Errors: beam_search_step() returns the codes of fairdraw/cuda.h, and unsupported if
// diversity_rate is an array or is not 0; statuses are those of fairdraw/beam_search.h.
//
// Definition: fairdraw/beam_search.h.
#pragma once

#include <cstdint>

#include "fairdraw/beam_search.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Returns the bytes of workspace for a step: 2.1 KB per row, and 3 KB per place for a beam.
std::int64_t workspace_bytes(const BeamStepRequest& step) noexcept;

/// Does one step of beam search, as fairdraw/beam_search.h says. A request may have at most 256
/// candidates, (1 + end ids) * width; a request with more fails with invalid_beam. diversity_rate
/// is a scalar. Scores may differ from the CPU's in the last unit of the logarithm and of the
/// power, which the device computes.
Error beam_search_step(const BeamStepRequest& step, const BeamStepResult& result,
                       const Execution& execution);

}  // namespace fairdraw::cuda
