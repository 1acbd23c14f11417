// top_p on one row: where the nucleus ends.
//
// The threshold is the largest value v whose mass W(>= v) reaches the target max(1, ceil(p Z)).
// The total Z needs every weight once. So that this one pass also finds v, a bracket of values is
// guessed before it (nucleus_guess.h), and the pass makes the index of tiles, sums the weights
// above the bracket by tile, and lists the bracket's values. If the target lies between the mass
// above and that with the bracket, v is in the list; what is above and the list's values then are
// the prefix sums of the survivors, without another pass. Where the guess is wrong the exact sums
// tell, and it costs a pass over the side that it missed.
//
// Where top_p is the only filter, nothing reads the row before that pass: a sample alone says
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

/// What filters know and keep of one row.
struct KnownRow {
  RowIndex index;
  ValueList list;
  RowSample sample;
  TopSet survivors;
};

class Nucleus {
 public:
  /// top_p alone, on a row that no pass has read yet: the pass that finds the nucleus is the first.
  RowStatus cut_unread(KnownRow& row, float top_p);
  /// top_p after other filters. `base`: the threshold of min_p alone, for the joint order.
  void cut(KnownRow& row, float top_p, FilterOrder filter_order, float base);

 private:
  /// Weights of the row, of all above a bracket, and of all in it.
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
  std::vector<std::uint64_t> above_;  // by tile: what is above the bracket, then what survives
  std::vector<std::uint32_t> run_begin_;
  std::vector<std::uint64_t> ties_;  // by tile, of a bracket that is one value
  ListWeights list_weights_;
  uint128_t list_weight_ = 0;  // of all that weigh_list weighed
  std::vector<Segment> segments_;
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
