// Rows that `boundaries` draws from: tokens on both sides of what a filter cuts, heavy enough that
// draws alone show on which side they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

struct BoundaryRow {
  /// at_ends: at ends of the vocabulary and of tiles, and anywhere. anywhere: every id holds a
  /// head. in_order: head i is at id i.
  enum class Place { at_ends, anywhere, in_order };

  std::string name;
  std::vector<float> heads;  ///< logits, or probabilities; of other ids nothing is ever drawn
  reference::RowParameters parameters;
  Place place = Place::at_ends;
  /// Groups of ids; some token of each must be drawn.
  std::vector<std::vector<std::size_t>> groups = {};
  std::uint64_t samples = 0;  ///< draws, all of them samples of one output; 0: those of the case
  /// So must one of the last half, quarter, ... of the tokens that are kept.
  bool by_rank = false;
};

/// The rows of a case. One operation without filters at temperature 1 stands for all filters: rows
/// of a few heads, whose parameters lie on both sides of what their heads weigh. Other operations
/// get the rows that their own filters cut; what they keep, up to the whole vocabulary, has about
/// equal weights.
std::vector<BoundaryRow> boundary_rows(const CheckInput& input);

/// A request of the row alone.
Request boundary_request(const CheckInput& input, const BoundaryRow& row, std::uint64_t number);

}  // namespace fairdraw::harness
