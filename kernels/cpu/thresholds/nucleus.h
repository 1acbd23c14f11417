// Applies top_p to one row, which means finding the end of the row's nucleus.
//
// The threshold is the largest value v whose mass W(>= v) reaches the target max(1, ceil(p Z)). To
// compute the total Z, the weight of every value is needed once. A bracket of values is guessed
// first (nucleus_guess.h), so that the pass that computes Z also finds v. This pass makes the index
// of tiles, sums the weights above the bracket by tile, and lists the values in the bracket. If the
// target is between the mass above the bracket and the mass including the bracket, v is in the
// list. The sums above the bracket and the values in the list then give the prefix sums of the
// survivors without another pass. The exact sums show whether the guess was wrong; if it was,
// another pass over the side that the guess missed is needed.
//
// If top_p is the only filter, nothing reads the row before this pass. A sample alone decides
// whether a bracket is guessed, or the index is made first and the largest values are looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wide_integers.h"
#include "cpu/row_index.h"
#include "cpu/selection.h"
#include "cpu/thresholds/nucleus_guess.h"
#include "cpu/top_set.h"
#include "cpu/value_list.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

/// Data about one row that the filters share: its index, list, sample and survivors.
struct KnownRow {
  RowIndex index;
  ValueList list;
  RowSample sample;
  TopSet survivors;
};

class Nucleus {
 public:
  /// Applies top_p as the only filter to a row that no pass has read; the pass that finds the
  /// nucleus is the first.
  RowStatus cut_unread(KnownRow& row, float top_p);
  /// Applies top_p after the other filters. `base` is the threshold of min_p alone, which the joint
  /// order needs.
  void cut(KnownRow& row, float top_p, FilterOrder filter_order, float base);

 private:
  /// Weights of the whole row, of the values above a bracket, and of the values in the bracket.
  struct MeasuredBracket {
    uint128_t total, above, inside;
  };

  void cut_list(KnownRow& row, float top_p, bool joint, float base);
  void cut_at(KnownRow& row, const Bracket& guess, float top_p, bool joint, float from);
  MeasuredBracket measured(const KnownRow& row, const Bracket& bracket);
  RowStatus measure_tiles(KnownRow& row, const Bracket& bracket, float from);
  void weigh_ties(const RowIndex& index, float value);
  uint128_t weigh_list(const KnownRow& row, float low);
  void weigh_far(const KnownRow& row, const Segment& segment, float low);
  float select_in_list(const KnownRow& row, float low, float high, uint128_t target);
  void add_bracket_to_tiles(const KnownRow& row, const Bracket& bracket, float threshold);

  NucleusGuess guess_;
  std::vector<std::uint64_t> above_;  // for each tile, the weight above the bracket, and later the
                                      // weight of the survivors
  std::vector<std::uint32_t> run_begin_;
  std::vector<std::uint64_t> ties_;  // for each tile, the weight of the ties, if the bracket has a
                                     // single value
  ListWeights list_weights_;
  uint128_t list_weight_ = 0;  // sum of all weights in list_weights_
  std::vector<Segment> segments_;
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
