// Kept sets on an NVIDIA GPU have the calls of fairdraw/kept_sets.h and the contract of
// fairdraw/cuda.h. The arrays of KeptSets are in device memory, too.
//
// After the call's own kernels, further kernels on the same stream mark and pack the survivors,
// without synchronising with the host. So a CUDA graph that holds the call holds its kept sets,
// too. If support_size is requested, it is counted from these marks at no further cost.
//
// Errors: Calls return the codes of fairdraw/cuda.h; statuses are those of fairdraw/kept_sets.h.
//
// Definition: fairdraw/kept_sets.h.
#pragma once

#include <cstdint>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_speculative.h"
#include "fairdraw/kept_sets.h"

namespace fairdraw::cuda {

/// Returns the bytes of workspace for a call of `sample_with_kept_sets`, which may report
/// log-probabilities too. The workspace exceeds that of `sample` by one bit per value, and about 4
/// bytes per 256 values.
std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs,
                             const KeptSets& kept) noexcept;

/// Gives the ids, offsets and overflows that fairdraw/kept_sets.h describes, the same as the CPU's,
/// and draws the tokens of cuda::sample.
Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution);

/// Returns the bytes of workspace for calls that accept drafts. The workspace exceeds that of a
/// call without kept sets by one bit per value of the target, and 4 bytes per place of a token.
std::int64_t workspace_bytes(const AcceptChainRequest& request, const KeptSets& kept) noexcept;
/// As for chains.
std::int64_t workspace_bytes(const AcceptTreeRequest& request, const KeptSets& kept) noexcept;

/// Gives the kept sets that fairdraw/kept_sets.h describes, the same as the CPU's, and the results
/// of accept_chain.
Error accept_chain_with_kept_sets(const AcceptChainRequest& request,
                                  const AcceptChainResult& result, const KeptSets& kept,
                                  const Execution& execution);
/// Alias of accept_chain_with_kept_sets, by the name that engines use.
inline Error verify_chain_with_kept_sets(const VerifyChainRequest& request,
                                         const VerifyChainResult& result, const KeptSets& kept,
                                         const Execution& execution) {
  return accept_chain_with_kept_sets(request, result, kept, execution);
}

/// Gives the kept sets that fairdraw/kept_sets.h describes, the same as the CPU's, and the results
/// of accept_tree.
Error accept_tree_with_kept_sets(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                                 const KeptSets& kept, const Execution& execution);
/// Alias of accept_tree_with_kept_sets, by the name that engines use.
inline Error verify_tree_with_kept_sets(const VerifyTreeRequest& request,
                                        const VerifyTreeResult& result, const KeptSets& kept,
                                        const Execution& execution) {
  return accept_tree_with_kept_sets(request, result, kept, execution);
}

/// Returns the bytes of workspace for kept_sets_of_mask: at most 4 bytes per row, or 2 KB if there
/// are few rows.
std::int64_t workspace_bytes(const KeptMask& rows) noexcept;

/// Packs the kept sets of a mask, as fairdraw/kept_sets.h says. At most 2^22 - 1 rows. The call may
/// follow a sharded call (fairdraw/cuda_sharded.h) on its stream. Rows that are left undecided have
/// no mask and no status yet; if their statuses are set to RowStatus::inactive before, these rows
/// get no kept set.
Error kept_sets_of_mask(const KeptMask& rows, const KeptSets& kept, const Execution& execution);

}  // namespace fairdraw::cuda
