// Filters and draws of one row on one core, which lead from float32 values to a threshold, and from
// random words to tokens.
//
// The weights are defined in common/tile_weights.h. The total Z of a row has 128 bits, and a draw
// is R = floor(word Z / 2^64). The drawn token is the first, in the order of ids, for which the sum
// of the surviving weights up to it exceeds R. Every filter of the specification keeps a top set,
// which consists of the values at or above a threshold. So a filtered row is described by its
// threshold, the total of its survivors, and their prefix sums.
//
// Algorithm. Weights do not depend on the row's maximum. So a row is read only once if all its
// values matter, and if few tokens survive, the weights of the whole row are not computed.
//
//   no filter: the index of tiles (tile_passes.h), one pass. A draw then reads one tile.
//   other filters: `scan` of passes.h, the maximum of the row and of each group of 32 values, at
//     an eighth of the cost of weights.
//   greedy: the first group that has the maximum.
//   min_p: its threshold on the logit, by bisection on floats, 32 steps of arithmetic.
//   top_k: the k largest group maxima are k different values of the row, so the k-th largest
//     maximum is a lower bound of the k-th largest value. Blocks that reach it are listed: few more
//     than k values, among which the k-th is selected.
//   top_p without top_k, only draws requested: no filter runs. The index is made as without
//     filters, tokens are proposed from it, and each is tested (proposer.h): 1.06 times the cost of
//     the draw without filters on peaked rows of 131072, 1.27 times on flat ones.
//   top_p, survivors requested: a bracket of values is guessed, and one pass makes the index, sums
//     the values above the bracket by tile, and lists the values in it (nucleus.h). If survivors
//     are listed already, their nucleus is selected in the list. top_p alone needs no scan: a
//     sample decides whether to guess at once, or to make the index first, because its largest
//     tiles have the few tokens that may be the whole nucleus. Draws use proposals all the same.
//   draws: prefix sums by segment, then the weights of one segment. A segment is a tile of the row,
//     or up to kTileSize values of the list (top_set.h).
//
// Each part has its own files, and this class combines the parts: the index (row_index.h), the list
// (value_list.h), the bracket (nucleus_guess.h, nucleus.h), sums and draws (top_set.h), and
// proposals (proposer.h).
//
// Near and far. The shift of a tile cuts off no bit of a token that is at most kTileBits octaves
// below the row's maximum, so the token has the same weight relative to the row's maximum as
// relative to its tile's maximum. So if the threshold is at most kTileBits octaves below the
// maximum, the maxima of the tiles are not needed, and all sums are multiples of 2^kRowBits. A list
// is then weighed as if all its values came from one tile. Otherwise, with a threshold more than
// about 22 T below the largest logit, weights are relative to the maxima of the tiles. In a list,
// the maximum of a tile is that of the tile's listed values, because the list contains the maximum
// of every tile that has a survivor. The tiles of a list share one maximum if this cuts off no bit
// of any weight.
//
// Determinism: sums are integers and selections are exact, so neither guesses nor the instruction
// set change any result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/parameters.h"
#include "cpu/filter_options.h"
#include "cpu/proposer.h"
#include "cpu/row_logprobs.h"
#include "cpu/thresholds/nucleus.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

class IndexedRow {
 public:
  /// Selects the instruction set with which the following rows are processed.
  void use(CpuTarget target) { row_.index.use(target); }

  /// Filters a row of n values, where n is at least 1. Precondition: banned tokens have the value
  /// -inf (0 for probabilities), and `parameters` are in range. The memory of the row must stay
  /// valid until the next call. If options.draws_alone is true, the caller may request only draws
  /// and unfiltered results.
  RowStatus filter(const float* x, std::size_t n, const RowParameters& parameters,
                   const FilterOptions& options);

  /// Returns the token of a draw with a seed; the draw is made by proposals if the row uses them
  /// (common/proposals.h). Precondition: the status of the row is ok.
  std::int32_t draw(const DrawWords& words);
  /// Returns the survivor that a random word selects; used for words that the caller gives, and for
  /// speculation.
  std::int32_t draw(std::uint64_t word);
  /// Makes a survivor the token of all seeded draws from this row.
  void choose(std::int32_t token) { chosen_token_ = token; }

  /// Returns the temperature with which the row was filtered.
  float temperature() const { return parameters_.temperature; }
  std::int64_t support_size() const;
  void write_mask(std::uint32_t* words);           ///< ceil(n / 32) words
  void write_probabilities(float* probabilities);  ///< n floats
  bool keeps(std::int32_t token) const;
  void list_survivors(std::vector<std::int32_t>& ids);  ///< ascending
  /// Calls use(id, weight in the row's unit) for each survivor, in ascending order.
  template <class Use>
  void for_each_weight(const Use& use);

  /// Writes the n weights that speculation uses, which are 0 for all tokens except the survivors.
  /// They are relative to the row's octave E, floor(m 2^(16 + n - E)) in the terms of
  /// tile_weights.h, and at most 2^40. Returns the sum of these weights, which is at most 2^60.
  /// Precondition: the row is not greedy. Each weight differs from the weight that draws use by
  /// less than 2^-40 of the largest possible weight.
  std::uint64_t write_weights(std::uint64_t* weights) const;

  /// Returns the log-probability of a token before filtering, at the row's temperature (1 if the
  /// temperature is 0); logprob_filtered returns the token's log-probability among the survivors.
  /// Logits only.
  float logprob(std::int32_t token);
  float logprob_filtered(std::int32_t token);

  /// Returns the scanned row with all tokens that an unfiltered draw can return; survivors_row
  /// returns the row with the survivors alone.
  ScannedRow unfiltered_row();
  ScannedRow survivors_row();

  /// Returns the weight of the unfiltered row at its temperature; survivors_weight returns that of
  /// the survivors of a row that is not greedy. The unit is 2^(E - 103), where E is the octave of
  /// the row's maximum.
  uint128_t unfiltered_weight();
  uint128_t survivors_weight();
  /// Returns the log_mass that log_probability needs, for the unfiltered row or for the survivors.
  /// Logits only. For the survivors of a greedy row, log_mass is 0.
  double unfiltered_log_mass();
  double survivors_log_mass();

 private:
  void begin_row(const float* x, std::size_t n, const RowParameters& parameters, bool from_probs);
  RowStatus index_for_proposals();
  void begin_proposals();
  RowStatus find_survivors();
  float min_p_low() const;
  void apply_top_k(std::size_t k, TieRule tie_rule);
  float kth_largest_of_row(std::size_t k);

  KnownRow row_;
  Nucleus nucleus_;
  Proposer proposer_;
  RowParameters parameters_;
  FilterOptions options_;
  bool proposes_ = false;
  bool has_proposals_ = false;  ///< whether proposer_ has the data of this row
  bool has_survivors_ = false;  ///< whether row_.survivors has the result of the filters
  double temperature_ = 1;
  std::int32_t greedy_token_ = -1;   // only survivor of a greedy row, or -1 in other rows
  std::int32_t chosen_token_ = -1;   // token that was given to choose(), or -1 if there is none
  std::vector<std::uint32_t> mask_;  // scratch memory of list_survivors
  std::vector<std::int32_t> ids_;    // scratch memory of for_each_weight
  SelectionScratch scratch_;
};

template <class Use>
void IndexedRow::for_each_weight(const Use& use) {
  list_survivors(ids_);
  const RowIndex& index = row_.index;
  float values[kTile];
  std::uint64_t weights[kTile + kTileSlack];
  std::size_t end = 0;
  for (std::size_t begin = 0; begin < ids_.size(); begin = end) {
    // Filters keep the largest value of a tile if they keep any value of it.
    float maximum = index.x[ids_[begin]];
    for (end = begin; end < ids_.size() && ids_[end] / kTileSize == ids_[begin] / kTileSize;
         ++end) {
      values[end - begin] = index.x[ids_[end]];
      maximum = std::max(maximum, values[end - begin]);
    }
    index.tile_passes->weigh(values, end - begin, index.rule, maximum, index.smallest_allowed(),
                             weights);
    const int shift = index.shift_of(maximum);
    for (std::size_t i = begin; i < end; ++i) use(ids_[i], row_weight(weights[i - begin], shift));
  }
}

}  // namespace fairdraw::cpu
