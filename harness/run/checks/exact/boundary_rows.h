// Rows that `boundaries` draws from: tokens on both sides of a filter's cut, likely enough that
// draws alone show on which side they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

struct BoundaryRow {
  /// at_ends: at ends of the vocabulary and of tiles, and at random ids. anywhere: every id holds a
  /// head. in_order: head i is at id i.
  enum class IdOrder { at_ends, anywhere, in_order };

  std::string name;
  std::vector<float> heads;  ///< logits or probabilities; other ids are never drawn
  reference::RowParameters parameters;
  IdOrder place = IdOrder::at_ends;
  /// Groups of ids; at least one token of each group must be drawn.
  std::vector<std::vector<std::size_t>> groups = {};
  std::uint64_t samples = 0;  ///< samples of one output to draw; 0: as many draws as the case
  /// True if the last half, the last quarter, ... of the kept tokens must each be drawn at least
  /// once, too.
  bool by_rank = false;
};

/// Returns the rows of a case. One operation without filters at temperature 1 covers all filters
/// with rows of a few heads, whose parameters are on both sides of their heads' weights. Other
/// operations get rows that their own filters cut; the kept tokens, up to the whole vocabulary,
/// have about equal weights.
std::vector<BoundaryRow> boundary_rows(const CheckInput& input);

/// Returns a request of the row alone.
Request boundary_request(const CheckInput& input, const BoundaryRow& row, std::uint64_t number);

}  // namespace fairdraw::harness
