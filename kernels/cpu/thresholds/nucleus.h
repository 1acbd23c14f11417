// top_p on one row: finds the end of the nucleus.
//
// The threshold is the largest value v whose mass W(>= v) reaches the target max(1, ceil(p Z)). The
// total Z requires the weight of every value once. So that the same pass also finds v, a bracket of
// values is guessed first (nucleus_guess.h). The pass makes the index of tiles, sums the weights
// above the bracket by tile, and lists the bracket's values. If the target lies between the mass
// above the bracket and the mass including it, v is in the list. The sums above and the list's
// values then give the prefix sums of the survivors without another pass. The exact sums reveal a
// wrong guess, which costs another pass over the side that the guess missed.
//
// If top_p is the only filter, nothing reads the row before that pass: a sample alone decides
// whether to guess, or to make the index first and to look at the largest values.
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

/// Data about one row that filters share: index, list, sample and survivors.
struct KnownRow {
  RowIndex index;
  ValueList list;
  RowSample sample;
  TopSet survivors;
};

class Nucleus {
 public:
  /// Applies top_p alone to a row that no pass has read: the pass that finds the nucleus is the
  /// first.
  RowStatus cut_unread(KnownRow& row, float top_p);
  /// Applies top_p after other filters. `base`: the threshold of min_p alone, for the joint order.
  void cut(KnownRow& row, float top_p, FilterOrder filter_order, float base);

 private:
  /// Weights of the row, of the values above a bracket, and of those in it.
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
  std::vector<std::uint64_t> above_;  // by tile: weight above the bracket, later weight of the
                                      // survivors
  std::vector<std::uint32_t> run_begin_;
  std::vector<std::uint64_t> ties_;  // by tile: weight of the ties, for a bracket of one value
  ListWeights list_weights_;
  uint128_t list_weight_ = 0;  // sum of all weights in list_weights_
  std::vector<Segment> segments_;
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
