// Interface of the beam search kernels: the kernels of a step (beam_search.cu, beam_rows.cu), and
// the kernel that ends a search (beam_result.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/cuda.h"
#include "serving/rules/beam_rules.h"

namespace fairdraw::cuda {

/// Maximum number of candidates that a beam may have.
inline constexpr int kMaxOfBeam = 256;

/// Largest entries that the kernel has found in a row.
struct BeamRow {
  RowStatus status;
  std::int32_t entries;  ///< number of entries, which is the requested number, or all entries above
                         ///< -inf
  float max;
  double log_mass;  ///< logarithm of the row's mass, which is set for logits only
};

/// Arguments of the kernels of a step, with pointers to device memory.
struct BeamTask {
  BeamStepRequest step;
  BeamStepResult result;

  // In the workspace.
  BeamTerms* terms = nullptr;      ///< [requests]
  std::int32_t* wanted = nullptr;  ///< number of entries requested from each row [rows], or 0 if no
                                   ///< beam uses the row
  BeamRow* rows = nullptr;         ///< [rows]
  float* values = nullptr;      ///< values of the entries [rows, kMaxOfBeam], in descending order
  std::int32_t* ids = nullptr;  ///< [rows, kMaxOfBeam]
  BeamCandidate* candidates = nullptr;  ///< candidates of the beams [requests * max_width,
                                        ///< kMaxOfBeam]
};

/// Enqueues the first kernel of a step, which reads the requests and sets the number of entries
/// that are requested from each row. There must be at least one request.
cudaError_t prepare_beam_rows(const BeamTask& task, cudaStream_t stream);

/// Enqueues the second kernel of a step, which finds the entries (beam_rows.cu); rows.rows must be
/// in [1, 2^22).
cudaError_t find_beam_rows(const BeamTask& task, Path path, cudaStream_t stream);

/// Enqueues the third kernel of a step, which ranks the candidates and writes the results.
cudaError_t step_beams(const BeamTask& task, cudaStream_t stream);

/// Enqueues the kernel that ends a beam search (beam_result.cu); there must be at least one
/// request.
cudaError_t write_sequences(const BeamResultRequest& request, const BeamSequences& result,
                            cudaStream_t stream);

}  // namespace fairdraw::cuda
