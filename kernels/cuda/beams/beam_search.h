// Interface of the kernels of beam search: those of a step (beam_search.cu, beam_rows.cu) and that
// of the end (beam_result.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/cuda.h"
#include "serving/rules/beam_rules.h"

namespace fairdraw::cuda {

/// Maximum number of candidates that count, per beam.
inline constexpr int kMostOfBeam = 256;

/// Entries found in a row.
struct BeamRow {
  RowStatus status;
  std::int32_t entries;  ///< as many as were asked for, or all entries above -inf
  float max;
  double log_mass;  ///< log of the row's mass, for logits
};

/// Task of a step, as the device sees it.
struct BeamTask {
  BeamStepRequest step;
  BeamStepResult result;

  // In the workspace.
  BeamTerms* terms = nullptr;           ///< [requests]
  std::int32_t* wanted = nullptr;       ///< [rows]: number of entries; 0: the row of no beam
  BeamRow* rows = nullptr;              ///< [rows]
  float* values = nullptr;              ///< [rows, kMostOfBeam]: values of the entries, in order
  std::int32_t* ids = nullptr;          ///< [rows, kMostOfBeam]
  BeamCandidate* candidates = nullptr;  ///< [requests * max_width, kMostOfBeam]
};

/// Enqueues the first kernel, which reads the requests and sets the number of entries wanted of
/// each row. requests >= 1.
cudaError_t prepare_beam_rows(const BeamTask& task, cudaStream_t stream);

/// Enqueues the second kernel, which finds the entries (beam_rows.cu). rows.rows in [1, 2^22).
cudaError_t find_beam_rows(const BeamTask& task, Path path, cudaStream_t stream);

/// Enqueues the third kernel, which ranks candidates and writes the step.
cudaError_t step_beams(const BeamTask& task, cudaStream_t stream);

/// Enqueues the kernel of the end of a search (beam_result.cu). requests >= 1.
cudaError_t write_sequences(const BeamResultRequest& request, const BeamSequences& result,
                            cudaStream_t stream);

}  // namespace fairdraw::cuda
