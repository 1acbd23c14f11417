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
//     top_p: a bracket of values is guessed (nucleus_guess.cpp), and one pass makes the index, sums
//       what is above the bracket by tile, and lists what is in it (indexed_nucleus.cpp). Or
//       survivors are listed already, and their nucleus is selected in the list. Alone it needs no
//       scan: a sample says whether to guess at once, or to make the index first, whose largest
//       tiles have the few tokens that may be all of the nucleus.
//   draws: prefix sums by segment, then the weights of one. A segment is a tile of the row, or up
//     to kTileSize values of the list.
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
#include <optional>
#include <vector>

#include "common/parameters.h"
#include "common/wide_integers.h"
#include "cpu/bracket_passes.h"
#include "cpu/filter_options.h"
#include "cpu/passes.h"
#include "cpu/row_logprobs.h"
#include "cpu/selection.h"
#include "cpu/tile_passes.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

class IndexedRow {
 public:
  /// The instruction set of the rows to come.
  void use(CpuTarget target);

  /// Filters a row of n >= 1 values. Banned tokens are -inf already (probabilities: 0), and
  /// `parameters` are in range. The row must stay alive until the next call.
  RowStatus filter(const float* x, std::size_t n, const RowParameters& parameters,
                   const FilterOptions& options);

  /// The token of a random word. The row's status must be ok.
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
  /// The values that the list has of one tile.
  struct ListRun {
    std::size_t tile;
    std::size_t begin;  ///< in the list
  };
  /// Consecutive values of the domain that are weighed relative to one maximum, and the shift that
  /// brings their weights into the row's unit.
  struct Segment {
    std::size_t begin;
    std::uint32_t length;
    int shift;
    float maximum;
  };
  /// The largest values of a row, from `low` up, and roughly their weight (roughly: estimates are
  /// in doubles, in units of 2^kRowBits).
  struct Head {
    float low;
    double weight;
  };
  /// What the sample holds of the rest: weight, and sum of squared weights.
  struct Tail {
    double weight, square;
  };
  /// listed: list_ holds all values >= low already. one_value: many ties of one value, which are
  /// counted. to_list: values are listed by the pass that measures the row.
  enum class BracketKind { listed, one_value, to_list };
  /// Where the nucleus is guessed to end: the values in [low, high].
  struct Bracket {
    float low, high;
    BracketKind kind;
    bool one_value() const { return kind == BracketKind::one_value; }
  };
  /// Weights of the row, of what lies above a bracket, and of what lies in it.
  struct MeasuredBracket {
    uint128_t total, above, inside;
  };

  void begin_row(const float* x, std::size_t n, const RowParameters& parameters, bool from_probs);
  RowStatus index_row();
  RowStatus scan_row();
  void scan_groups();
  RowStatus use_keys();
  void find_shifts();
  float smallest_allowed() const;
  std::int32_t first_at_maximum();

  double find_hot_tiles(float low);
  bool collect_list(float low, float high, std::size_t limit);
  std::size_t collect_tile(std::size_t tile, float low, float high, double reach);
  void apply_top_k(std::size_t k, TieRule tie_rule);
  float kth_largest_of_row(std::size_t k);
  void cut_ties(std::size_t ties_kept);

  void apply_top_p(float top_p, FilterOrder filter_order, float base);
  void cut_list_to_nucleus(float top_p, FilterOrder filter_order, float base);
  RowStatus cut_unread_row_to_nucleus(float top_p);
  void cut_row_to_nucleus(float top_p, FilterOrder filter_order, float base);
  void cut_at(const Bracket& guess, float top_p, bool joint, float from);
  void take_sample(float low, float high);
  double value_below_maximum(double octaves) const;
  NearWeights near_weights() const;
  Head no_head() const;
  Head weigh_head(std::size_t size, float base);
  Tail weigh_tail(const Head& head, float base);
  Bracket guess_nucleus(float top_p, float base);
  double values_per_sampled() const;
  std::optional<Bracket> guess_in_even_row(float top_p, float base);
  Bracket guess_in_uneven_row(float top_p, float base);
  Bracket guess_in_tail(double p, float base, const Head& head, double target, double times);
  MeasuredBracket measured_bracket(const Bracket& bracket);
  RowStatus measure_tiles(const Bracket& bracket, float from);
  void weigh_ties(float value);
  std::uint64_t weight_in_tile(std::size_t tile, float value) const;
  uint128_t weight_of_cut_ties() const;
  uint128_t weigh_list(float low);
  void weigh_far(const Segment& segment, float low);
  float select_in_list(float low, float high, uint128_t target);
  void add_bracket_to_tiles(const Bracket& bracket, float threshold);

  double octave_of(float x) const;
  bool is_near(float low) const;
  const float* domain() const { return on_list_ ? list_.data() : row_; }
  std::size_t domain_size() const { return on_list_ ? list_size_ : n_; }
  std::size_t tile_length(std::size_t tile) const;
  std::size_t run_length(std::size_t run) const;
  bool ties_are_cut() const { return tie_end_ < n_; }
  bool all_survive() const;
  bool survivor_sums_are_known() const;
  void use_list(float low);
  void use_row();
  int shift_of(float maximum) const;
  Segment segment_of_tile(std::size_t tile, bool near) const;
  void need_tile_sums();
  void build_segments();
  void segment_list(bool near, float low);
  void segment_row(bool near);
  std::size_t with_ties(std::size_t begin, std::size_t length) const;
  uint128_t weight_of(const Segment& segment) const;
  void weigh(const Segment& segment, std::uint64_t* weights) const;
  void build_prefix();
  uint128_t weight_of_row_from(float low);
  template <class Use>
  void for_each_tile(const Use& use);
  std::size_t row_position(std::size_t domain_position) const;

  const Passes* passes_ = nullptr;
  const TilePasses* tile_passes_ = nullptr;
  const BracketPasses* bracket_passes_ = nullptr;

  const float* row_ = nullptr;
  std::size_t n_ = 0;
  std::size_t tiles_ = 0;
  std::size_t blocks_ = 0;  // of `scan`
  TileRule rule_;
  double temperature_ = 1;
  float max_ = 0;
  double row_octave_ = 0;

  // What is known of the row. group_max_: maxima of `scan`. keys_: of tiles, and what brings their
  // sums into the row's unit. sums_: of tiles, of all allowed tokens.
  bool has_groups_ = false;
  bool has_keys_ = false;
  bool has_sums_ = false;
  std::vector<float> group_max_;
  std::vector<std::int32_t> keys_;
  std::vector<int> shifts_;
  std::vector<std::uint64_t> sums_;

  // Survivors: values > low_, and those == low_ in front of the position where ties are cut
  // (tie_end_ in the row, tie_end_in_domain_ where sums run; the size where none are cut).
  float low_ = 0;
  std::size_t tie_end_ = 0;
  std::size_t tie_end_in_domain_ = 0;
  std::int32_t greedy_token_ = -1;

  // Where sums and draws run: the row itself, or the list of its values >= list_low_.
  bool on_list_ = false;
  float list_low_ = 0;
  std::size_t list_size_ = 0;
  std::vector<float> list_;
  std::vector<ListRun> list_runs_;
  std::vector<std::uint32_t> hot_blocks_;
  std::vector<std::uint32_t> hot_tiles_;
  std::size_t hot_tiles_size_ = 0;
  std::vector<float> tile_max_;  // of keys_

  // Prefix sums of the survivors, inclusive, by segment; empty: not known yet. No segments: tiles.
  std::vector<Segment> segments_;
  std::vector<uint128_t> prefix_;

  // Of a bracket that was measured: by tile, what is above it, then what survives; where the
  // list's values of a tile begin; weight of the ties of a bracket that is one value.
  bool has_survivor_sums_ = false;
  std::vector<std::uint64_t> survivor_sums_;
  std::vector<std::uint32_t> run_begin_;
  std::vector<std::uint64_t> ties_;

  std::vector<std::uint32_t> mask_;  // of list_survivors

  std::vector<float> sample_;
  std::size_t sample_size_ = 0;   // values of the row in [low, high] among those sampled
  std::size_t sample_taken_ = 0;  // values sampled
  std::vector<std::uint64_t> sample_weights_;
  std::vector<float> known_values_;  // the sample's values in a bracket
  SelectionScratch scratch_;
  ListWeights list_weights_;   // what weigh_list weighed
  uint128_t list_weight_ = 0;  // of all of it
};

}  // namespace fairdraw::cpu
