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

/// Returns the bytes of workspace of a call that accepts drafts: up to 142 bytes per row, and the
/// bytes that logits processing takes.
std::int64_t workspace_bytes(const AcceptChainRequest& request) noexcept;
/// As for chains.
std::int64_t workspace_bytes(const AcceptTreeRequest& request) noexcept;

// See fairdraw/speculative.h. The arrays of requests are in device memory too, so that a replayed
// graph reads new drafts. If rows of requests overlap (row_begins that decrease), these requests
// get unspecified tokens or an unspecified status; nothing but their own results is written.

/// Accepts or rejects the drafted tokens of chains, as fairdraw/speculative.h says.
Error accept_chain(const AcceptChainRequest& request, const AcceptChainResult& result,
                   const Execution& execution);
/// Alias of accept_chain, by the name that engines use.
inline Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                          const Execution& execution) {
  return accept_chain(request, result, execution);
}

/// Accepts or rejects the drafted tokens of trees, as fairdraw/speculative.h says.
Error accept_tree(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                  const Execution& execution);
/// Alias of accept_tree, by the name that engines use.
inline Error verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                         const Execution& execution) {
  return accept_tree(request, result, execution);
}

/// See fairdraw/speculative.h. The workspace must have room for target rows and draft rows
/// together: workspace_bytes(rows).
Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result, const Execution& execution);

}  // namespace fairdraw::cuda
