// Search for the best candidates of a single live beam.
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

/// Keeps the first `most` candidates of a list, in the order of comes_before; the kept candidates
/// are in any order.
void keep_best(std::vector<BeamCandidate>& candidates, std::size_t most);

/// Finder of the best candidates in rows, which keeps its buffers from one row to the next.
class BeamCandidates {
 public:
  /// Returns the first `most` candidates of a row of n >= 1 values, or all of them if there are
  /// fewer. The result is in any order, and valid until the next call. `status` is set to the first
  /// fault of the row, or to ok.
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
  std::size_t max_candidates_ = 0, room_ = 0;
  float cut_ = 0;  ///< values below the cut are not candidates

  std::vector<BeamCandidate> found_;
  std::vector<float> group_max_;
  std::vector<std::uint32_t> blocks_;
  SelectionScratch scratch_;
  RowMass mass_;
};

}  // namespace fairdraw::cpu
