// Shared parts of `sample`, log_probabilities and the operations of fairdraw/sampling.h on the GPU.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/row_logprobs.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Largest batch. With 512 blocks per row, the maximum for kMaxVocab, write_rows' grid is still
/// below 2^31 blocks.
inline constexpr std::int64_t kMaxRows = (std::int64_t{1} << 22) - 1;

/// Task on the survivors of a call's rows, after the call's own kernels. It also writes the sizes
/// of these sets, so SampleResult::support_size is left to it.
class SurvivorsTask {
 public:
  virtual ~SurvivorsTask() = default;
  /// Checks the task's arrays for a checked request: lengths, then pointers.
  virtual Error check(const SampleRequest& request) const = 0;
  virtual void check(DevicePointers& pointers) const = 0;
  /// Takes its part of the workspace, and returns where the row kernel writes the keys of tiles.
  virtual TileRows<std::int32_t> allocate(const SampleRequest& request, BumpAllocator& memory) = 0;
  /// Enqueues the task. `keys` has those of the tiles of rows that are ok.
  virtual Error enqueue(const SampleRequest& request, const SampleResult& result,
                        const FilteredRows& filtered, const TileRows<std::int32_t>& keys,
                        cudaStream_t stream) const = 0;
};

struct SampleOptions {
  const char* rows_name = "logits";  ///< name of `request.logits` in errors
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< for the mask and renorm operations
  bool wants_tokens = true;         ///< otherwise the result has masks or probabilities only
  bool tokens_are_given = false;    ///< reports are of given_tokens; wants_tokens is false
  View<const std::int32_t> given_tokens;
  bool reports_statuses = false;       ///< in a call without tokens: row_logprobs writes them
  SurvivorsTask* survivors = nullptr;  ///< optional
};

/// Makes `path` definite if the device leaves no choice (best becomes block without clusters), or
/// returns why the call cannot run here. Defined in availability.cpp.
Error check_path(Path& path);

/// Runs a call. Defined in sample.cpp, as check_batch is.
Error sample_rows(const SampleRequest& request, const SampleResult& result,
                  const Execution& execution, const SampleOptions& options);

/// Returns an error for a batch that is too large. `name` as in rows_name.
Error check_batch(const RowsView& rows, const char* name);

/// Enqueues the reports of a call whose rows are filtered and whose tokens are drawn. In raw modes
/// the rows are indexed first; in processed modes the row kernel has done that. Defined in
/// log_probabilities.cpp.
Error enqueue_reports(const LogprobsTask& report, View<const std::uint8_t> active, Path path,
                      cudaStream_t stream);

inline cudaStream_t stream_of(const Execution& execution) {
  return static_cast<cudaStream_t>(execution.stream);
}

}  // namespace fairdraw::cuda
