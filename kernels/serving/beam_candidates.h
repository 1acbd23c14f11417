// The best candidates that one live beam offers.
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

/// Keeps the first `most` of the list by comes_before, in any order.
void keep_best(std::vector<BeamCandidate>& candidates, std::size_t most);

/// Finds candidates; its buffers are kept between rows.
class BeamCandidates {
 public:
  /// The best candidates of a row of n >= 1 values: the first `most` of all those of the beam (or
  /// all there are), in any order, until the next call. `status` says what is wrong with the row.
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
  float cut_ = 0;  ///< values below it offer nothing

  std::vector<BeamCandidate> found_;
  std::vector<float> group_max_;
  std::vector<std::uint32_t> blocks_;
  SelectionScratch scratch_;
  RowMass mass_;
};

}  // namespace fairdraw::cpu
