// Data about one row that all ranks have: the merged summaries of the shards, the survivors of the
// filters, and the tokens. The class reads only exchanged data and no logits, so every rank
// computes the same results.
//
// The row consists of three kinds of data. Of the whole tiles of each shard, the summary has the
// total. Of the tiles that shard boundaries cut, all values are known. The candidates are the first
// values of each shard, ordered by value (descending) and id. The certificate `left_key` is the
// largest key that is in no list, so every value above it is known, with its token. The candidates
// can be weighed, because a list that contains a value of a tile also contains the tile's largest
// value.
//
// Every filter keeps the values at or above a threshold. A threshold is the largest value at which
// a measure of the row, which is a count or a mass, reaches a target, so it is found by walking
// down the list of known values. If the list ends before the threshold, the row is gathered; then
// all its values are known, and the walk is the same. If no token is dropped, the drawn position is
// either in a cut tile, or in a shard, which is asked for the token. In rows that draw by proposals
// (common/proposals.h), attempts are found in the same way: all ranks know the positions of the
// attempts and the threshold, and each shard answers with its first attempt that survives. If the
// list ends before the threshold and only tokens are requested, the shards answer with the attempts
// that may be the first accepted one, and in the next exchange with the mass above these attempts.
// Two more kinds of rows are gathered. If min_p drops tiles, no rank knows the positions. If no
// attempt is accepted, the token is drawn from the survivors, which must be known for this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "common/float_order.h"
#include "common/parameters.h"
#include "common/proposals.h"
#include "common/tile_weights.h"
#include "cpu/passes/tile_passes.h"
#include "fairdraw/log_probabilities.h"
#include "sharded/exchange.h"
#include "sharded/partition.h"

namespace fairdraw::sharded {

/// Rules of a call, which are the same for all its rows.
struct CallRules {
  Partition partition;
  SummaryLayout layout;
  bool from_probs = false;          ///< rows are probabilities
  bool top_k_1_keeps_ties = false;  ///< whether top_k = 1 keeps ties, like any other k
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  CpuTarget target = CpuTarget::best;
  const cpu::TilePasses* tile_passes = nullptr;
  bool ranks = false;  ///< whether the call requests ranks
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  RankRule rank_rule = RankRule::position;
  bool processed = false;  ///< whether filtered rows may differ from the caller's rows

  /// Returns whether reports need values that the summaries do not list.
  bool reports_raw_values() const { return processed && is_raw(mode); }

  /// Returns whether a row has a single survivor, which is the first token with the largest value.
  bool is_greedy(const RowParameters& parameters) const {
    const bool ties_of_largest = top_k_1_keeps_ties && parameters.top_k == 1;
    return fairdraw::is_greedy(parameters) && !ties_of_largest;
  }
  /// Returns whether a row is filtered by a threshold.
  bool filters(const RowParameters& parameters) const {
    return !is_greedy(parameters) && (parameters.min_p > 0.0F || parameters.top_p < 1.0F ||
                                      top_k_is_on(parameters.top_k, partition.vocab()));
  }
  cpu::WeightRule weight_rule(float temperature) const {
    if (from_probs) return {true, 1.0F};
    return {false, logit_scale(temperature == 0.0F ? 1.0F : temperature)};
  }
  /// Returns the smallest value that may be drawn; tokens that may not be drawn have -inf, or the
  /// probability 0.
  float smallest() const {
    return from_probs ? std::numeric_limits<float>::denorm_min()
                      : -std::numeric_limits<float>::max();
  }
};

/// Random words of one token, which follow from its seed or come from the caller.
struct TokenWords {
  DrawWords of_seed{};
  std::optional<std::uint64_t> brought = std::nullopt;

  std::uint64_t of_attempt(std::uint32_t attempt) const {
    return brought ? *brought : of_seed.of_attempt(attempt);
  }
};

/// Token that all ranks know.
struct KnownToken {
  std::int32_t id = -1;
  float x = 0;    ///< its value
  float raw = 0;  ///< logit of the caller, set only if reports_raw_values() is true
};

class MergedRow {
 public:
  /// Merges `summaries`, one per shard, into the row; `words` has one entry for each token.
  void merge(const CallRules& rules, const RowParameters& parameters,
             const std::vector<const std::byte*>& summaries, std::vector<TokenWords> words);

  /// Returns the question that the row asks all shards, which is empty if the row is decided.
  const Question& question() const { return question_; }
  /// Accepts the answers to the row's question, one from each shard.
  void take(const std::vector<const std::byte*>& answers);

  RowStatus status() const { return status_; }
  const RowParameters& parameters() const { return parameters_; }
  const cpu::WeightRule& rule() const { return rule_; }
  float max() const { return max_; }
  double octave() const { return octave_; }
  bool is_greedy_row() const { return greedy_; }

  /// The survivors are the values above low(), and the values equal to low() with an id below
  /// tie_end().
  float low() const { return low_; }
  std::int64_t tie_end() const { return tie_end_; }
  /// Attempts with keys below rejected_below() are rejected; attempts with keys of at least
  /// accepted_from() are accepted. Both keys are valid only for rows that ask for tokens.
  std::int32_t rejected_below() const { return rejected_below_; }
  std::int32_t accepted_from() const { return accepted_from_; }
  std::int64_t support_size() const { return support_size_; }
  uint128_t survivors_weight() const { return survivors_weight_; }
  uint128_t unfiltered_weight() const { return unfiltered_weight_; }
  uint128_t raw_weight() const { return raw_weight_; }  ///< mass of the raw logits at temperature 1
  float raw_max() const { return raw_max_; }

  const std::vector<KnownToken>& tokens() const { return tokens_; }
  const std::vector<std::int32_t>& ranks() const { return ranks_; }
  /// Returns the n largest of the reported values, in descending order.
  std::vector<KnownToken> largest(std::size_t n) const;

  /// First id and largest allowed value of a cut tile. Precondition: the row's status is ok.
  struct TileMaximum {
    std::int64_t begin = 0;
    std::int32_t key = kEmptyTileKey;
  };
  TileMaximum cut_tile_of(std::int64_t id) const;

  /// Finds an attempt of a token in a shard's whole tiles, and returns the mass before the attempt,
  /// or nothing if the attempt is not there. Precondition: the row asks for tokens.
  std::optional<uint128_t> place_in_shard(std::uint32_t token, std::uint32_t attempt,
                                          int shard) const;

 private:
  struct CutTile {
    Ids ids;
    std::vector<float> x;
    std::vector<float> raw;
    std::int32_t key = kEmptyTileKey;
    std::uint64_t sum = 0;
    int shift = -1;  // left shift into the row's unit, or -1 if the tile has no weight in the row
  };
  /// Value that all ranks know.
  struct KnownValue {
    float x;
    float raw;
    std::int32_t id;
    std::int32_t key;
    uint128_t weight;  // set only in filtered rows
  };
  /// Number of some values, with their total weight in the row's unit.
  struct Measure {
    std::uint64_t count = 0;
    uint128_t mass = 0;
  };
  /// Key of a filter's threshold, with the measure of all values whose keys are at least this key.
  struct Threshold {
    std::int32_t key = 0;
    Measure at_least;
  };
  enum class By { count, mass };
  struct Survivors {
    Threshold from;
    std::int64_t tie_end = 0;
    Measure cut;  // measure of the tied values that top_k drops
  };
  /// Consecutive ids whose weights are added together: the whole tiles of a shard, or a cut tile.
  struct Part {
    std::int64_t begin;
    int shard;  // -1: a cut tile
    std::size_t cut_tile;
    uint128_t end;  // mass of the row up to the end of this part
  };
  struct Place {
    const Part* part;
    uint128_t rest;  // mass in the part before the position
  };
  /// Known values in the order of ids, from which tokens are drawn.
  struct Pool {
    std::vector<const KnownValue*> values;
    std::vector<uint128_t> prefix;
  };

  // merged_row.cpp
  void merge_status(const std::vector<const std::byte*>& summaries);
  void assemble_cut_tiles(const std::vector<const std::byte*>& summaries);
  void merge_maximum(const std::vector<RowSummary>& summaries);
  void merge_totals(const std::vector<RowSummary>& summaries);
  void merge_raw(const std::vector<const std::byte*>& summaries);
  void list_known(const std::vector<const std::byte*>& summaries,
                  const std::vector<RowSummary>& heads);
  void weigh_known();
  void order_parts();
  std::vector<KnownToken> raw_candidates(const std::vector<const std::byte*>& summaries) const;

  void know_all(const std::vector<const std::byte*>& columns);
  int shards() const { return rules_->partition.shards(); }
  bool is_filtered() const { return rules_->filters(parameters_); }

  // merged_survivors.cpp
  void decide();
  void ask_for_row();
  bool find_survivors();
  bool cut_to_nucleus(std::int32_t base, Survivors& survivors) const;
  void cut_ties(std::uint64_t wanted, Survivors& survivors) const;
  bool find(By by, uint128_t target, std::int32_t low_key, Threshold& found) const;
  bool measure(std::int32_t key, Threshold& found) const;
  std::int32_t smallest_key() const { return order_key(rules_->smallest()); }
  Measure everything() const;
  uint128_t weight_in(const CutTile& tile, float x) const;
  bool survives(float x, std::int64_t id) const { return x > low_ || (x == low_ && id < tie_end_); }
  bool proposes() const;
  bool is_wide();
  bool draw_tokens();
  void draw_by_parts(std::uint32_t most);
  void draw_known();
  void propose_known();
  std::optional<Place> place_of(const TokenWords& words, std::uint32_t attempt) const;
  template <class Passes>
  Pool pool_of(const Passes& passes) const;
  Pool survivors() const;
  Pool tiles_kept() const;
  static const KnownValue& drawn(const Pool& pool, std::uint64_t word);
  static KnownToken token_of(const KnownValue& value) { return {value.id, value.x, value.raw}; }
  void take_tokens(const DrawTokens& question, const std::vector<const std::byte*>& answers);
  std::vector<TokenAttempt> records_of(const DrawTokens& question, std::size_t draw,
                                       const std::vector<const std::byte*>& answers) const;
  void take_sums(const SumAbove& question, const std::vector<const std::byte*>& answers);
  std::size_t place_in_cut_tile(const CutTile& tile, uint128_t place) const;
  void count_ranks();
  void take_ranks(const CountInFront& question, const std::vector<const std::byte*>& answers);
  bool known_rank(const KnownToken& token, std::int32_t& rank) const;
  std::int64_t end_of_equals(const KnownToken& token) const;

  const CallRules* rules_ = nullptr;
  RowParameters parameters_;
  cpu::WeightRule rule_;
  RowStatus status_ = RowStatus::ok;
  bool greedy_ = false;

  float max_ = 0;
  double octave_ = 0;
  KnownToken first_at_max_;
  std::vector<CutTile> cut_tiles_;
  std::vector<Part> parts_;
  std::vector<Measure> whole_;  // for each shard, the measure of its whole tiles
  uint128_t unfiltered_weight_ = 0;
  uint128_t raw_weight_ = 0;
  float raw_max_ = 0;
  std::vector<KnownValue> known_;  // known values, ordered by value (descending) and id
  std::int32_t left_key_ = kEmptyTileKey;
  std::vector<KnownToken> raw_known_;

  // The following members are set by decide() and when answers arrive.
  std::int32_t base_key_ = kEmptyTileKey;  // key of the smallest value that min_p keeps
  float low_ = 0;
  std::int64_t tie_end_ = 0;
  bool is_gathered_ = false;
  std::int64_t support_size_ = 0;
  uint128_t survivors_weight_ = 0;
  std::int32_t rejected_below_ = kEmptyTileKey;
  std::int32_t accepted_from_ = kEmptyTileKey;
  uint128_t target_ = 0;  // target mass of a nucleus whose threshold is not known
  std::vector<TokenWords> words_;
  std::vector<KnownToken> tokens_;
  std::vector<std::int32_t> ranks_;

  Question question_;
  std::vector<std::vector<TokenAttempt>> records_;  // attempts of each token, until the masses
                                                    // above them are known
  std::vector<std::size_t> asked_;  // tokens for whose ranks the row's question asks
};

}  // namespace fairdraw::sharded
