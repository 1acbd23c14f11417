// Makes the rows that `boundaries` draws from: tokens on both sides of a filter's cut are so likely
// that draws alone show on which side they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

struct BoundaryRow {
  /// at_ends: heads are at the ends of the vocabulary and of tiles, and at random ids. anywhere:
  /// heads are at all ids. in_order: head i is at id i.
  enum class IdOrder { at_ends, anywhere, in_order };

  std::string name;
  std::vector<float> heads;  ///< logits or probabilities; other ids are never drawn
  reference::RowParameters parameters;
  IdOrder place = IdOrder::at_ends;
  /// Groups of ids; at least one token of each group must be drawn.
  std::vector<std::vector<std::size_t>> groups = {};
  std::uint64_t samples = 0;  ///< number of samples of one output; 0: as many draws as the case
  /// True if each of the last half, the last quarter, ... of the kept tokens must be drawn at least
  /// once too.
  bool by_rank = false;
};

/// Returns the boundary rows of a case. For the one operation without filters at temperature 1, the
/// rows test all filters: they have a few heads, and their parameters are on both sides of the
/// heads' weights. Other operations get rows that their own filters cut; the kept tokens, up to the
/// whole vocabulary, have about equal weights.
std::vector<BoundaryRow> boundary_rows(const CheckInput& input);

/// Returns a request of the row alone.
Request boundary_request(const CheckInput& input, const BoundaryRow& row, std::uint64_t number);

}  // namespace fairdraw::harness
