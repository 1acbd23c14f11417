// Beam search on an NVIDIA GPU: the steps of fairdraw/beam_search.h, with what fairdraw/cuda.h says
// of every call. fairdraw/cuda_beam_result.h has the end of a search.
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

/// Bytes of workspace for a step: 2.1 KB per row, and 3 KB per place for a beam.
std::int64_t workspace_bytes(const BeamStepRequest& step) noexcept;

/// See fairdraw/beam_search.h. A request may count 256 candidates, (1 + end ids) * width: one with
/// more fails with invalid_beam. diversity_rate is a scalar. Scores are the CPU's except for the
/// last unit of the logarithm and the power, which are the device's.
Error beam_search_step(const BeamStepRequest& step, const BeamStepResult& result,
                       const Execution& execution);

}  // namespace fairdraw::cuda
