// One row on one core: from float32 values to a threshold, and from random words to tokens.
//
// Weights are those of common/tile_weights.h: a row's total has 128 bits, a draw is
// R = floor(word Z / 2^64), and the token is the first, in id order, whose inclusive prefix of
// surviving weights passes R. Every filter of the specification keeps a top set, the values at or
// above a threshold, so a filtered row is (threshold, total of the survivors, their prefix sums).
//
// Algorithm. Weights need no maximum, so the row is read once where all of it counts, and its
// weights are not looked at where few survive:
//
//   none: the index of tiles (tile_passes.h), one pass. A draw then reads one tile.
//   else: `scan` of passes.h, the maximum of the row and of each group of 32 values, an eighth of
//     the cost of weights. greedy: the first group that has the maximum.
//     min_p: its threshold on the logit, by bisection on floats, 32 steps of arithmetic.
//     top_k: k of the group maxima are k values of their own, so the k-th largest maximum is a
//       lower bound of the k-th largest value. Blocks that reach it are listed: little more than k
//       values, among which the k-th is selected.
//     top_p without top_k: where draws alone are asked for, no filter runs. The index is made as
//     for
//       none, tokens are proposed from it, and each is asked about (proposer.h): 1.06 times the
//       draw without filters on peaked rows of 131072, 1.27 times on flat ones.
//     top_p, where survivors are asked for: a bracket of values is guessed, and one pass makes the
//       index, sums what is above the bracket by tile, and lists what is in it (nucleus.h). Or
//       survivors are listed already, and their nucleus is selected in the list. Alone it needs no
//       scan: a sample says whether to guess at once, or to make the index first, whose largest
//       tiles have the few tokens that may be all of the nucleus. Draws propose all the same.
//   draws: prefix sums by segment, then the weights of one. A segment is a tile of the row, or up
//     to kTileSize values of the list (top_set.h).
//
// Each part has its file: the index (row_index.h), the list (value_list.h), the bracket
// (nucleus_guess.h, nucleus.h), sums and draws (top_set.h), proposals (proposer.h). Here they are
// put together.
//
// Near and far. A token at most kTileBits octaves below the row's maximum has no bit cut off by its
// tile: it weighs the same relative to the row's maximum as relative to its tile's. So where the
// threshold is that near, tiles' maxima are not needed, a list is weighed as if its values came
// from one tile, and all sums are multiples of 2^kRowBits. Else (a threshold 22 T below the largest
// logit) weights are taken relative to tiles' maxima: of a list, the maximum of the listed values
// of a tile, because a tile that has a survivor has its maximum among them. Tiles of a list share a
// maximum where that cuts off no bit either.
//
// Determinism: sums are integers and selections exact, so neither a guess nor the instruction set
// shows in any result.
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
  /// The instruction set of the rows to come.
  void use(CpuTarget target) { row_.index.use(target); }

  /// Filters a row of n >= 1 values. Banned tokens are -inf already (probabilities: 0), and
  /// `parameters` are in range. The row must stay alive until the next call. With
  /// options.draws_alone only draws and what is unfiltered may be asked for.
  RowStatus filter(const float* x, std::size_t n, const RowParameters& parameters,
                   const FilterOptions& options);

  /// The token of a draw by seed: by proposals where the row proposes (common/proposals.h). The
  /// row's status must be ok.
  std::int32_t draw(const DrawWords& words);
  /// The survivor of a random word: of scripts, and of speculation.
  std::int32_t draw(std::uint64_t word);

  std::int64_t support_size() const;
  void write_mask(std::uint32_t* words);           ///< ceil(n / 32) words
  void write_probabilities(float* probabilities);  ///< n floats
  bool keeps(std::int32_t token) const;
  void list_survivors(std::vector<std::int32_t>& ids);  ///< ascending

  /// Weights of the survivors for speculation, n of them, relative to the row's octave E:
  /// floor(m 2^(16 + n - E)) of tile_weights.h, at most 2^40. Returns their sum, at most 2^60. The
  /// row is not greedy. They differ from the weights of draws by less than 2^-40 of the largest
  /// possible one each.
  std::uint64_t write_weights(std::uint64_t* weights) const;

  /// Log-probability of a token before filtering (at the row's temperature, 1 where it is 0), and
  /// among the survivors. Logits only.
  float logprob(std::int32_t token);
  float logprob_filtered(std::int32_t token);

  /// The row with all values that may be drawn before filtering, and with the survivors alone.
  ScannedRow unfiltered_row();
  ScannedRow survivors_row();

  /// Weight of the former at the row's temperature, and of the latter where the row is not greedy,
  /// in units of 2^(E - 103), E the octave of the row's maximum.
  uint128_t unfiltered_weight();
  uint128_t survivors_weight();
  /// log_mass of log_probability for either. Logits only. A greedy row's token has all its mass.
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
  bool has_proposals_ = false;  ///< proposer_ is of this row
  bool has_survivors_ = false;  ///< row_.survivors are the filters'
  double temperature_ = 1;
  std::int32_t greedy_token_ = -1;   // the only one that a greedy row keeps; -1 of another
  std::vector<std::uint32_t> mask_;  // of list_survivors
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
