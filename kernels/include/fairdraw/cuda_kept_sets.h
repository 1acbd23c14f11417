// Kept sets on an NVIDIA GPU: the calls of fairdraw/kept_sets.h, with what fairdraw/cuda.h says of
// every call. The arrays of KeptSets are device memory, too.
//
// Kernels that follow the call's own kernels on the same stream mark and pack the survivors,
// without synchronising with the host: a graph that holds the call holds its sets. If support_size
// is requested, the marks give it at no further cost.
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

/// Bytes of workspace for a call of `sample_with_kept_sets` that may report log-probabilities too:
/// a bit for each value, and about 4 bytes for each 256, more than `sample` asks for.
std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs,
                             const KeptSets& kept) noexcept;

/// See fairdraw/kept_sets.h: the same ids, offsets and overflows as the CPU's, and the tokens of
/// cuda::sample.
Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution);

/// Bytes for calls that verify drafts: a bit for each value of the target, and 4 bytes a place of a
/// token more than without sets.
std::int64_t workspace_bytes(const VerifyChainRequest& request, const KeptSets& kept) noexcept;
/// As for chains.
std::int64_t workspace_bytes(const VerifyTreeRequest& request, const KeptSets& kept) noexcept;

/// See fairdraw/kept_sets.h: the CPU's sets, and what verify_chain and verify_tree write.
Error verify_chain_with_kept_sets(const VerifyChainRequest& request,
                                  const VerifyChainResult& result, const KeptSets& kept,
                                  const Execution& execution);
/// See fairdraw/kept_sets.h: the CPU's sets, and what verify_tree writes.
Error verify_tree_with_kept_sets(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                                 const KeptSets& kept, const Execution& execution);

/// Bytes for kept_sets_of_mask: at most 4 bytes per row, but for few rows 2 KB.
std::int64_t workspace_bytes(const KeptMask& rows) noexcept;

/// See fairdraw/kept_sets.h. At most 2^22 - 1 rows. Behind a sharded call (fairdraw/cuda_sharded.h)
/// on its stream: rows that are left undecided have no mask and no status, so statuses that
/// begin as RowStatus::inactive leave them without a set.
Error kept_sets_of_mask(const KeptMask& rows, const KeptSets& kept, const Execution& execution);

}  // namespace fairdraw::cuda
