// Interface of the kernel that writes the outputs of filtered rows (draw_outputs.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/rows/filtered_rows.h"

namespace fairdraw::cuda {

/// Results to write, where a null pointer means that the result is not requested.
struct OutputsTask {
  FilteredRows filtered;
  View<const std::int32_t> indices;  ///< optional row of each output: output i belongs to row
                                     ///< indices[i]
  std::int64_t outputs = 0;
  std::int64_t num_samples = 1;
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  const std::uint64_t* words = nullptr;  ///< optional random words, which replace the random words
                                         ///< of the seeds
  Purpose purpose = Purpose::draw;
  bool tokens_are_drawn = false;   ///< whether the row kernel has written the tokens, with -1 for
                                   ///< rows that failed
  std::int32_t* tokens = nullptr;  ///< tokens [outputs, num_samples], which are needed for
                                   ///< log-probabilities
  RowStatus* statuses = nullptr;   ///< [outputs]
  std::int32_t* support_size = nullptr;  ///< [outputs]
  float* logprob = nullptr;              ///< log-probabilities before the filters [outputs,
                                         ///< num_samples], for logits only
  float* logprob_filtered = nullptr;     ///< log-probabilities among the survivors [outputs,
                                         ///< num_samples], for logits only
};

/// Enqueues the kernel; there must be at least 1 output. Returns the CUDA error of the launch.
cudaError_t draw_outputs(const OutputsTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
