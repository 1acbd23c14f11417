// Beam search on the GPU: what the kernels of a step pass to each other (beam_search.cu), and that
// of the end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/beam_rules.h"
#include "cuda/outputs/row_heads.h"

namespace fairdraw::cuda {

/// A call, as the device sees it.
struct BeamTask {
  BeamStepRequest step;
  BeamStepResult result;

  // In the workspace.
  BeamTerms* terms = nullptr;           ///< [requests]
  std::int32_t* top_k = nullptr;        ///< [rows]; 0: nobody's beam
  std::uint8_t* active = nullptr;       ///< [rows]
  TileIndexResult index;                ///< [rows]
  RowRecord* records = nullptr;         ///< [rows]
  RowHeads heads;                       ///< [rows]
  BeamCandidate* candidates = nullptr;  ///< [requests * max_width, RowHeads::kMax]
};

/// Enqueues the kernel in front of those that read the rows: reads requests, and says which rows are wanted
/// and how many of their largest values. requests >= 1.
cudaError_t prepare_beam_rows(const BeamTask& task, cudaStream_t stream);

/// Enqueues the kernel after them: ranks candidates and writes the step.
cudaError_t step_beams(const BeamTask& task, cudaStream_t stream);

/// Enqueues the kernel of the end of a search (beam_result.cu). requests >= 1.
cudaError_t write_sequences(const BeamResultRequest& request, const BeamSequences& result,
                            cudaStream_t stream);

}  // namespace fairdraw::cuda
