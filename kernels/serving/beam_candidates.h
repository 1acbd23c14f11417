// Search for the best candidates of one live beam.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"
#include "cpu/row_mass.h"
#include "cpu/selection.h"
#include "serving/rules/beam_rules.h"

namespace fairdraw::cpu {

/// Keeps the first `most` candidates of the list by comes_before, in any order.
void keep_best(std::vector<BeamCandidate>& candidates, std::size_t most);

/// Finder of the best candidates of rows, which keeps its buffers between rows.
class BeamCandidates {
 public:
  /// Returns the first `most` candidates of a row of n >= 1 values (or all, if fewer), in any
  /// order, valid until the next call. `status` is the row's first fault, or ok.
  const std::vector<BeamCandidate>& find(const Passes& passes, const TilePasses& tile_passes,
                                         const float* x, std::size_t n, BeamInput input,
                                         float beam_score, std::int32_t beam, std::size_t most,
                                         RowStatus& status);

 private:
  float score_of(float x) const;
  float smallest_with_score_of(float x) const;
  void scan(const float* x, std::size_t begin, std::size_t end);
  void prune();

  // The current row:
  BeamInput input_ = BeamInput::logits;
  float beam_score_ = 0, max_ = 0;
  double log_mass_ = 0;
  std::int32_t beam_ = 0;
  std::size_t most_ = 0, room_ = 0;
  float cut_ = 0;  ///< no value below the cut is a candidate

  std::vector<BeamCandidate> found_;
  std::vector<float> group_max_;
  std::vector<std::uint32_t> blocks_;
  SelectionScratch scratch_;
  RowMass mass_;
};

}  // namespace fairdraw::cpu
