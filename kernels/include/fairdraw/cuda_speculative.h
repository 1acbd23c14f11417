// Speculation on an NVIDIA GPU has the calls of fairdraw/speculative.h and the contract of
// fairdraw/cuda.h.
//
// Errors: Calls return the codes of fairdraw/cuda.h, and invalid_argument if there are 2^22
// requests or more; statuses are those of fairdraw/speculative.h.
//
// Definition: fairdraw/speculative.h.
#pragma once

#include <cstdint>

#include "fairdraw/cuda.h"
#include "fairdraw/speculative.h"

namespace fairdraw::cuda {

/// Returns the bytes of workspace of a call that verifies drafts: up to 142 bytes per row, and the
/// bytes that logits processing takes.
std::int64_t workspace_bytes(const VerifyChainRequest& request) noexcept;
/// As for chains.
std::int64_t workspace_bytes(const VerifyTreeRequest& request) noexcept;

// See fairdraw/speculative.h. The arrays of requests are in device memory too, so that a replayed
// graph reads new drafts. If rows of requests overlap (row_begins that decrease), these requests
// get unspecified tokens or an unspecified status; nothing but their own results is written.

/// Verifies chains, as fairdraw/speculative.h says.
Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                   const Execution& execution);

/// Verifies trees, as fairdraw/speculative.h says.
Error verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                  const Execution& execution);

/// See fairdraw/speculative.h. The workspace must have room for target rows and draft rows
/// together: workspace_bytes(rows).
Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result, const Execution& execution);

}  // namespace fairdraw::cuda
