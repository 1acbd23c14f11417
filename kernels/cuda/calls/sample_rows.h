// What `sample`, log_probabilities and the operations of fairdraw/sampling.h share on the GPU.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/row_logprobs.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Largest batch: with 512 tiles a row, the most that kMaxVocab has, write_rows' grid is still
/// below 2^31 blocks.
inline constexpr std::int64_t kMaxRows = (std::int64_t{1} << 22) - 1;

/// What a call makes of the survivors of its rows, behind its own kernels. It has the sizes of
/// these sets, too: SampleResult::support_size is left to it.
class SurvivorsTask {
 public:
  virtual ~SurvivorsTask() = default;
  /// Checks its arrays, of a request that is checked: lengths, then pointers.
  virtual Error check(const SampleRequest& request) const = 0;
  virtual void check(DevicePointers& pointers) const = 0;
  /// Takes its part of the workspace, and says where the row kernel writes the keys of tiles.
  virtual TileRows<std::int32_t> allocate(const SampleRequest& request, BumpAllocator& memory) = 0;
  /// `keys`: of the tiles of rows that are ok.
  virtual Error enqueue(const SampleRequest& request, const SampleResult& result,
                        const FilteredRows& filtered, const TileRows<std::int32_t>& keys,
                        cudaStream_t stream) const = 0;
};

struct SampleOptions {
  const char* rows_name = "logits";  ///< what errors call `request.logits`
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< the mask and renorm operations
  bool wants_tokens = true;         ///< else the result has masks or probabilities only
  bool tokens_are_given = false;    ///< reports are of given_tokens; wants_tokens is false
  View<const std::int32_t> given_tokens;
  bool reports_statuses = false;       ///< of a call without tokens: row_logprobs writes them
  SurvivorsTask* survivors = nullptr;  ///< optional
};

/// No error, and `path` made definite where the device leaves no choice (best is block where there
/// are no clusters); or why the call cannot run here. Defined in availability.cpp.
Error check_path(Path& path);

/// Defined in sample.cpp, as check_batch is.
Error sample_rows(const SampleRequest& request, const SampleResult& result,
                  const Execution& execution, const SampleOptions& options);

/// No error, or one for a batch that is too large. `name` as in rows_name.
Error check_batch(const RowsView& rows, const char* name);

/// Enqueues the reports of a call whose rows are filtered, and whose tokens are drawn. In raw modes
/// the rows are indexed first; in processed ones the row kernel has done that. Defined in
/// log_probabilities.cpp.
Error enqueue_reports(const LogprobsTask& report, View<const std::uint8_t> active, Path path,
                      cudaStream_t stream);

inline cudaStream_t stream_of(const Execution& execution) {
  return static_cast<cudaStream_t>(execution.stream);
}

}  // namespace fairdraw::cuda
