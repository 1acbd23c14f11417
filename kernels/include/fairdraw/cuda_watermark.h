// Marked draws on an NVIDIA GPU have the call of fairdraw/watermark.h and the contract of
// fairdraw/cuda.h. The arrays of Watermark, and the lists of `request.processing.output`, are in
// device memory, too.
//
// One to three kernels more than those of `sample` run on the stream, without synchronising with
// the host: so a CUDA graph that holds the call holds its marks, and a replay reads keys and
// outputs again. In a race or a tournament, a call whose request has the output alone, and no other
// logits processing, takes no time for processing and no workspace for it. A green list is a step
// of logits processing.
//
// Errors: The call returns the codes of fairdraw/cuda.h, and those of fairdraw::sample_marked; rows
// have the statuses of fairdraw/watermark.h.
//
// Definition: fairdraw/watermark.h.
#pragma once

#include <cstdint>

#include "fairdraw/cuda.h"
#include "fairdraw/watermark.h"

namespace fairdraw::cuda {

/// Returns the bytes of workspace for a call of `sample_marked`, which may report log-probabilities
/// too. The workspace exceeds that of `sample` by 4 bytes per 256 values, and by less than 32 bytes
/// per row; an output that penalties do not read adds nothing. A tournament takes 20 bytes per
/// value of up to 128 rows more. A green list takes 1 bit per value more than `sample` with logits
/// processing.
std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs,
                             const Watermark& watermark) noexcept;

/// Draws the tokens that fairdraw::sample_marked draws, bit for bit. All results are those of the
/// marked token.
Error sample_marked(const SampleRequest& request, const Watermark& watermark,
                    const SampleResult& result, const Execution& execution);

}  // namespace fairdraw::cuda
