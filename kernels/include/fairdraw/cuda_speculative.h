// Speculation on an NVIDIA GPU: the calls of fairdraw/speculative.h, with what fairdraw/cuda.h says
// of every call.
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

/// Bytes for a call that verifies drafts: up to 142 bytes per row, and what processing takes.
std::int64_t workspace_bytes(const VerifyChainRequest& request) noexcept;
/// As for chains.
std::int64_t workspace_bytes(const VerifyTreeRequest& request) noexcept;

// See fairdraw/speculative.h. Arrays of requests lie in device memory too, so that a replayed graph
// reads other drafts. Requests whose rows overlap (row_begins that fall) get some tokens or some
// status, unspecified which, and nothing but their own results is written.

/// Verifies chains; see fairdraw/speculative.h.
Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                   const Execution& execution);

/// Verifies trees; see fairdraw/speculative.h.
Error verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                  const Execution& execution);

/// See fairdraw/speculative.h. The workspace is that of target and draft rows together:
/// workspace_bytes(rows).
Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result, const Execution& execution);

}  // namespace fairdraw::cuda
