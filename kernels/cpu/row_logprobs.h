// Log-probabilities of one row: the values of tokens, their ranks, the n largest values, and the
// whole row.
//
// The semantics and the numerics are those of fairdraw/log_probabilities.h. The row is read through
// the maxima of its groups, which the filters have already found (indexed_row.h), so that only the
// output of the whole row needs a pass over the whole row:
//
//   top n: the n largest group maxima are n different values of the row, so the n-th largest
//     maximum bounds the n-th largest value from below. Blocks that reach it are collected and the
//     n-th is selected, as for top_k. If the filters left a list that holds n values, that list is
//     searched instead. Then the blocks that reach the threshold are turned into bits, and the bits
//     into ids; n entries are sorted. No step grows with the number of ties.
//   rank: read from the top n if the token is among them, otherwise counted in the blocks that
//     reach its value.
//   normaliser: the integer sum that the draw has already taken; for a raw row at a temperature
//     other than 1, a pass of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"
#include "cpu/row_mass.h"
#include "cpu/selection.h"
#include "fairdraw/log_probabilities.h"

namespace fairdraw::cpu {

/// Scanned row with the tokens that have values: the values above `low`, and the values equal to
/// `low` before the position tie_end. Precondition: at least one token has a value.
struct ScannedRow {
  const float* x = nullptr;
  std::size_t n = 0;
  const float* group_max = nullptr;  ///< from `scan`
  float max = 0;
  float low = 0;
  std::size_t tie_end = 0;
  /// List of all values of the row that are at least list_low, or null if there is no such list.
  const float* list = nullptr;
  std::size_t list_size = 0;
  float list_low = 0;
};

/// Returns (x - max) / T - log_mass, which is the formula of log-probabilities; log_mass is the one
/// of common/log_mass.h.
inline double log_probability(float x, float max, double temperature, double log_mass) {
  // Adding 0.0 turns -0 into +0, because the sign of a maximum that is zero depends on the path of
  // the code.
  const double distance = static_cast<double>(x) - static_cast<double>(max) + 0.0;
  return distance / temperature - log_mass;
}

class RowLogprobs {
 public:
  /// Selects the passes with which the following rows are processed.
  void use(const Passes& passes, const TilePasses& tile_passes) {
    passes_ = &passes;
    tile_passes_ = &tile_passes;
  }

  /// Scans a row that the filters have not processed, in which all values above -inf count.
  /// Precondition: at least one value is above -inf, and no value is NaN or +inf.
  ScannedRow scan(const float* x, std::size_t n);
  /// Returns log_mass at temperature 1 for a row in which all values above -inf count.
  double log_mass_of(const ScannedRow& row);

  /// Sets the row for the following calls; the memory of the row must stay valid. `temperature` is
  /// the caller's, or 1 in raw modes; `log_mass` is used only for log-probabilities.
  void begin(const ScannedRow& row, LogprobsMode mode, RankRule rank_rule, float temperature,
             double log_mass);

  float value(std::int32_t token) const;
  std::int32_t rank(std::int32_t token);
  /// Writes the n largest values, with n <= kLargestTopN; they are searched for only once per row.
  void write_top(std::int32_t n, std::int32_t* ids, float* values);
  void write_all(float* values) const;

 private:
  struct Entry {
    float x;
    std::int32_t token;
  };

  bool counts(std::size_t position) const {
    const float x = row_.x[position];
    return x > row_.low || (x == row_.low && position < row_.tie_end);
  }
  template <class Use>
  void with_value_of(const Use& use) const;
  float value_of(float x) const;
  std::size_t blocks() const { return (row_.n + kBlock - 1) / kBlock; }
  std::size_t find_hot_blocks(float low);
  float threshold_of_top(std::size_t n);
  void find_top(std::size_t n);
  template <class Take>
  void for_each_at_least(float low, const Take& take);

  const Passes* passes_ = nullptr;
  const TilePasses* tile_passes_ = nullptr;
  ScannedRow row_;
  LogprobsMode mode_ = LogprobsMode::raw_logprobs;
  RankRule rank_rule_ = RankRule::position;
  float temperature_ = 1;
  double log_mass_ = 0;

  // Number n of the last search for the n largest values, or 0 before the first search.
  std::size_t top_size_ = 0;
  std::vector<Entry> top_;
  std::vector<float> list_;
  std::vector<std::uint32_t> hot_blocks_;
  SelectionScratch scratch_;
  std::vector<float> group_max_;  // maxima of groups, for rows that scan() has scanned
  RowMass mass_;
};

}  // namespace fairdraw::cpu
