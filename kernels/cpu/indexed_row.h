// Filters and draws of one row on one core: from float32 values to a threshold, and from random
// words to tokens.
//
// common/tile_weights.h defines the weights: a row's total has 128 bits, a draw is
// R = floor(word Z / 2^64), and the token is the first, in id order, whose inclusive prefix of
// surviving weights exceeds R. Every filter of the specification keeps a top set, the values at or
// above a threshold, so a filtered row is (threshold, total of the survivors, their prefix sums).
//
// Algorithm. Weights do not depend on the row's maximum, so a row is read only once if all its
// values count, and weights are not computed for the whole row if few tokens survive:
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
// Each part has its own files, which this class combines: the index (row_index.h), the list
// (value_list.h), the bracket (nucleus_guess.h, nucleus.h), sums and draws (top_set.h), proposals
// (proposer.h).
//
// Near and far. The shift of a tile cuts off no bit of a token at most kTileBits octaves below the
// row's maximum: the token has the same weight relative to the row's maximum as to its tile's. So
// if the threshold is at most kTileBits octaves below the maximum, tiles' maxima are not needed, a
// list is weighed as if its values came from one tile, and all sums are multiples of 2^kRowBits.
// Otherwise (a threshold 22 T below the largest logit) weights are relative to tiles' maxima. In a
// list, the maximum of a tile is that of the tile's listed values, because the list contains the
// maximum of every tile that has a survivor. The tiles of a list share one maximum if that cuts off
// no bit of a weight.
//
// Determinism: sums are integers and selections exact, so neither guesses nor the instruction set
// change results.
#pragma once

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
  /// Selects the instruction set for the following rows.
  void use(CpuTarget target) { row_.index.use(target); }

  /// Filters a row of n >= 1 values. Precondition: banned tokens are -inf (probabilities: 0), and
  /// `parameters` are in range. The row's memory must stay valid until the next call. With
  /// options.draws_alone, only draws and unfiltered results may be requested.
  RowStatus filter(const float* x, std::size_t n, const RowParameters& parameters,
                   const FilterOptions& options);

  /// Returns the token of a seeded draw, by proposals if the row uses them (common/proposals.h).
  /// Precondition: the row's status is ok.
  std::int32_t draw(const DrawWords& words);
  /// Returns the survivor that a random word selects, for words that the caller gives and for
  /// speculation.
  std::int32_t draw(std::uint64_t word);

  std::int64_t support_size() const;
  void write_mask(std::uint32_t* words);           ///< ceil(n / 32) words
  void write_probabilities(float* probabilities);  ///< n floats
  bool keeps(std::int32_t token) const;
  void list_survivors(std::vector<std::int32_t>& ids);  ///< ascending

  /// Writes n weights for speculation, 0 except for survivors, relative to the row's octave E:
  /// floor(m 2^(16 + n - E)) of tile_weights.h, at most 2^40. Returns their sum, at most 2^60.
  /// Precondition: the row is not greedy. Each weight differs from the weight in draws by less than
  /// 2^-40 of the largest possible weight.
  std::uint64_t write_weights(std::uint64_t* weights) const;

  /// Returns a token's log-probability before filtering, at the row's temperature (1 if the
  /// temperature is 0), or among the survivors (logprob_filtered). Logits only.
  float logprob(std::int32_t token);
  float logprob_filtered(std::int32_t token);

  /// Returns the scanned row with all tokens that unfiltered draws can return, or with the
  /// survivors alone.
  ScannedRow unfiltered_row();
  ScannedRow survivors_row();

  /// Returns the weight of the unfiltered row at its temperature, or of the survivors of a row that
  /// is not greedy, in units of 2^(E - 103), where E is the octave of the row's maximum.
  uint128_t unfiltered_weight();
  uint128_t survivors_weight();
  /// Returns the log_mass for log_probability, of the unfiltered row or of the survivors. Logits
  /// only. The log_mass of a greedy row's survivors is 0.
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
  bool has_proposals_ = false;  ///< whether proposer_ belongs to this row
  bool has_survivors_ = false;  ///< whether row_.survivors has the result of the filters
  double temperature_ = 1;
  std::int32_t greedy_token_ = -1;   // the only survivor of a greedy row; -1 in other rows
  std::vector<std::uint32_t> mask_;  // scratch memory of list_survivors
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
