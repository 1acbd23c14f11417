// One row on one core: from float32 values to a threshold, and from random words to tokens.
//
// Every filter of the specification keeps a top set: the values at or above a threshold. So a
// filtered row is (threshold, total weight of the survivors, the survivors' prefix sums), and
// finding it takes a bounded number of passes over the row, whatever its values:
//
//   1. scan: the maximum, and the maximum of each group of 32 values (kBlock / kGroups).
//   2. min_p: its threshold on the logit, by bisection on floats, 32 steps of arithmetic.
//   3. top_k: k of the group maxima are k values of their own, so the k-th largest maximum is a
//      lower bound of the k-th largest value. Blocks that reach it are collected: little more
//      than k values, among which the k-th is selected.
//   4. top_p: the total weight needs one pass over the weights. In the same pass a bracket,
//      guessed from the group maxima and a sample of the rest (row_nucleus.cpp), is collected;
//      the sums decide, exactly, whether the threshold lies in it, and it is selected there. A
//      guess that fails costs another pass over the side that it missed, never a wrong answer.
//   5. draws: prefix sums by block, built as far as draws need them, then a scan of one block.
//
// When the survivors lie in the collected list, sums and draws run over that list alone.
//
// Determinism: sums are integers and selections exact, so neither the guess nor the instruction
// set shows in any result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/parameters.h"
#include "cpu/filter_options.h"
#include "cpu/passes.h"
#include "cpu/row_logprobs.h"
#include "cpu/selection.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

class RowSampler {
 public:
  /// The passes of the rows to come.
  void use(const Passes& passes) { passes_ = &passes; }

  /// Filters a row of n >= 1 values. Banned tokens are -inf already (probabilities: 0), and
  /// `parameters` are in range. The row must stay alive until the next call.
  RowStatus filter(const float* x, std::size_t n, const RowParameters& parameters,
                   const FilterOptions& options);

  /// The token of a random word. The row's status must be ok.
  std::int32_t draw(std::uint64_t word);

  std::int64_t support_size() const;
  void write_mask(std::uint32_t* words) const;           ///< ceil(n / 32) words
  void write_probabilities(float* probabilities) const;  ///< n floats
  bool keeps(std::int32_t token) const;

  /// Integer weights of the survivors of a row that is not greedy, n of them; returns their sum.
  std::uint64_t write_weights(std::uint64_t* weights) const;

  /// Log-probability of a token before filtering (at the row's temperature, 1 where it is 0), and
  /// among the survivors. Logits only.
  float logprob(std::int32_t token);
  float logprob_filtered(std::int32_t token) const;

  /// The row with all values that may be drawn before filtering, and with the survivors alone.
  ScannedRow unfiltered_row() const;
  ScannedRow survivors_row() const;
  /// Weight of the former at the row's temperature, and of the latter. Logits only.
  std::uint64_t unfiltered_weight();
  std::uint64_t survivors_weight() const;

 private:
  /// A run of the list: which block of the row it was collected from.
  struct ListRun {
    std::size_t row_begin;
    std::size_t list_begin;
  };
  /// The largest values of a row, from `low` up, and their exact weight.
  struct Head {
    float low;
    double weight;
  };
  /// listed: list_ holds all values >= low already. one_value: many ties of one value, which are
  /// counted. Else values are listed, few (sparse) or many (dense).
  enum class BracketKind { listed, one_value, sparse, dense };
  /// Where the nucleus is guessed to end: the values in [low, high].
  struct Bracket {
    float low, high;
    BracketKind kind;
    bool one_value() const { return kind == BracketKind::one_value; }
  };
  /// Weights of the row, of what lies above a bracket, and of what lies in it.
  struct MeasuredBracket {
    std::uint64_t total, above, inside;
    std::uint64_t weight_of_tie;  ///< of a bracket that is one value
  };

  void set_weight_rule(const RowParameters& parameters);
  float smallest_allowed() const;
  float min_p_threshold(float min_p) const;
  std::int32_t first_at_maximum();

  bool collect_list(float low, float high, std::size_t limit);
  void apply_top_k(std::size_t k, TieRule tie_rule);
  float kth_largest_of_row(std::size_t k);
  void cut_ties(std::size_t ties_kept);
  void apply_top_p(float top_p, FilterOrder filter_order, float base);
  void cut_list_to_nucleus(float top_p, FilterOrder filter_order, float base);
  void cut_row_to_nucleus(float top_p, FilterOrder filter_order, float base);
  void take_sample(float low, float high);
  float value_of_octave(float octave) const;
  Head weigh_head(float base);
  double sample_squares(float base) const;
  Bracket guess_nucleus(float top_p, float base);
  Bracket guess_in_tail(double p, float base, const Head& head, double target, double times);
  void list_and_measure(const Bracket& bracket, float from, std::size_t tie_end,
                        MeasuredBracket& measured);
  MeasuredBracket measure_bracket(const Bracket& bracket, float from, std::size_t tie_end);
  void build_prefix(float threshold, std::uint64_t weight_of_tie);

  const float* domain() const { return on_list_ ? list_.data() : row_; }
  std::size_t domain_size() const { return on_list_ ? list_size_ : n_; }
  bool ties_are_cut() const { return tie_end_ < n_; }
  void use_list(float low);
  void use_row();
  std::uint64_t survivors_sum(std::size_t begin, std::size_t n) const;
  std::uint64_t sum_of_row(float low) const;
  void weigh_survivors(std::size_t begin, std::size_t n);
  void extend_prefix();
  std::size_t row_position(std::size_t domain_position) const;

  const Passes* passes_ = nullptr;
  const float* row_ = nullptr;
  std::size_t n_ = 0;
  std::size_t blocks_ = 0;
  bool from_probs_ = false;
  float max_ = 0;
  double temperature_ = 1;
  WeightRule rule_;

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

  std::uint64_t total_ = 0;            // weight of the survivors; 0: not known yet
  std::uint64_t unfiltered_ = 0;       // weight of all allowed tokens; 0: not known yet
  std::vector<std::uint64_t> prefix_;  // inclusive, by block of the domain, as far as needed
  std::vector<float> group_max_;
  std::vector<std::uint32_t> hot_blocks_;
  std::vector<std::uint64_t> above_by_block_;  // of a bracket: weight above it, block by block
  std::vector<std::uint32_t> ties_by_block_;   // of a bracket that is one value: how many
  std::vector<float> sample_;
  std::size_t sample_size_ = 0;   // values of the row in [low, high] among those sampled
  std::size_t sample_taken_ = 0;  // values sampled
  std::vector<std::uint64_t> block_weights_;
  std::vector<float> known_values_;  // the sample's values in a bracket
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
