// Interface of the kernel that makes outputs of filtered rows (draw_outputs.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"

namespace fairdraw::cuda {

/// Results to write; a null pointer is a result that is not requested.
struct OutputsTask {
  FilteredRows filtered;
  View<const std::int32_t> indices;  ///< optional: output i belongs to row indices[i]
  std::int64_t outputs = 0;
  std::int64_t num_samples = 1;
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  const std::uint64_t* words = nullptr;  ///< optional: random words that replace those of the seeds
  Purpose purpose = Purpose::draw;
  bool tokens_are_drawn = false;   ///< whether the row kernel has written the tokens, with -1 for
                                   ///< failed rows
  std::int32_t* tokens = nullptr;  ///< [outputs, num_samples]; needed for log-probabilities
  RowStatus* statuses = nullptr;   ///< [outputs]
  std::int32_t* support_size = nullptr;  ///< [outputs]
  float* logprob = nullptr;              ///< [outputs, num_samples]; logits only
  float* logprob_filtered = nullptr;     ///< [outputs, num_samples]; logits only
};

/// Enqueues the kernel; outputs >= 1. Returns the launch's error.
cudaError_t draw_outputs(const OutputsTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
