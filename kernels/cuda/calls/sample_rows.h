// Parts that `sample`, log_probabilities and the operations of fairdraw/sampling.h share on the
// GPU.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/row_logprobs.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Largest batch. With 512 blocks per row, the maximum for kMaxVocab, the grid of write_rows still
/// has fewer than 2^31 blocks.
inline constexpr std::int64_t kMaxRows = (std::int64_t{1} << 22) - 1;

/// Rows that the row kernel has filtered, for a task on their survivors.
struct SurvivorRows {
  FilteredRows filtered;
  RowRecord* records;           ///< [rows]; the records of `filtered`, which the task may change
  TileRows<std::int32_t> keys;  ///< keys of the tiles of all rows whose status is ok
  Path path;
};

/// Changes of a task to the rows that the row kernel filters.
struct RowChanges {
  PerRequest<float> top_p;
  GreenTokens green;  ///< only for rows with logits processing
};

/// Task on the survivors of a call's rows, which runs between the row kernel and the kernels that
/// write the other results.
class SurvivorsTask {
 public:
  virtual ~SurvivorsTask() = default;
  /// Returns whether the task writes SampleResult::support_size, in place of the call.
  virtual bool writes_sizes() const = 0;
  /// Checks the arrays of the task, for a request that has already been checked: first the lengths,
  /// then the pointers.
  virtual Error check(const SampleRequest& request) const = 0;
  virtual void check(DevicePointers& pointers) const = 0;
  /// Allocates the task's part of the workspace, and returns the array into which the row kernel
  /// writes the keys of tiles.
  virtual TileRows<std::int32_t> allocate(const SampleRequest& request, BumpAllocator& memory) = 0;
  /// Enqueues work before edit_rows and the row kernel. The task may change what these get. It may
  /// raise top_p only in a call without other results that need the survivors, `has_tokens_alone`.
  virtual Error prepare(const SampleRequest& /*request*/, bool /*has_tokens_alone*/,
                        RowChanges& /*changes*/, cudaStream_t /*stream*/) {
    return {};
  }
  /// Enqueues the task.
  virtual Error enqueue(const SampleRequest& request, const SampleResult& result,
                        const SurvivorRows& rows, cudaStream_t stream) const = 0;
};

struct SampleOptions {
  const char* rows_name = "logits";  ///< name of `request.logits` in error messages
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< whether top_k 1 keeps ties, as in the mask and renorm
                                    ///< operations
  bool wants_tokens = true;         ///< whether tokens are drawn; otherwise the results are only
                                    ///< masks or probabilities
  bool tokens_are_given = false;    ///< whether log-probabilities of given_tokens are requested, in
                                    ///< which case wants_tokens is false
  View<const std::int32_t> given_tokens;
  bool reports_statuses = false;       ///< whether row_logprobs writes the statuses, in a call that
                                       ///< draws no tokens
  SurvivorsTask* survivors = nullptr;  ///< optional
};

/// Replaces Path::best by a definite path if the device leaves no choice, as on devices without
/// clusters, or returns the reason for which the call cannot run on this device. The function is
/// defined in availability.cpp.
Error check_path(Path& path);

/// Runs a call. The function is defined in sample.cpp, as check_batch is.
Error sample_rows(const SampleRequest& request, const SampleResult& result,
                  const Execution& execution, const SampleOptions& options);

/// Returns an error if a batch has too many rows or columns. `name` is the name of the batch in
/// error messages, like rows_name.
Error check_batch(const RowsView& rows, const char* name);

/// Enqueues the reports of log-probabilities of a call whose rows have been filtered and whose
/// tokens have been drawn. In raw modes, the rows are indexed first; in processed modes, the row
/// kernel has already indexed them. The function is defined in log_probabilities.cpp.
Error enqueue_reports(const LogprobsTask& report, View<const std::uint8_t> active, Path path,
                      cudaStream_t stream);

inline cudaStream_t stream_of(const Execution& execution) {
  return static_cast<cudaStream_t>(execution.stream);
}

}  // namespace fairdraw::cuda
