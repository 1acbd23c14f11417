// Guess of the value at which the nucleus of a row ends, as a bracket of values (nucleus.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/row_index.h"
#include "cpu/selection.h"
#include "cpu/value_list.h"

namespace fairdraw::cpu {

/// Kinds of brackets. With `listed`, the list already has all values >= low. With `one_value`,
/// there are many ties of a single value, which are counted. With `to_list`, the pass that measures
/// the row lists the values.
enum class BracketKind { listed, one_value, to_list };

/// Values [low, high] between which the nucleus probably ends.
struct Bracket {
  float low, high;
  BracketKind kind;
  bool one_value() const { return kind == BracketKind::one_value; }
};

/// Values of pieces that are spread over a row.
struct RowSample {
  /// Samples a row, and keeps the sampled values that are in [low, high].
  void take(const RowIndex& row, float low, float high);

  std::vector<float> values;
  std::size_t size = 0;   ///< number of sampled values that are in [low, high]
  std::size_t taken = 0;  ///< values sampled
};

class NucleusGuess {
 public:
  /// Returns the bracket of a row for which there is no sample yet. Only values >= `from` have a
  /// weight.
  Bracket of_row(RowIndex& row, ValueList& list, RowSample& sample, float top_p, float from);
  /// Returns the bracket of a row from its sample, if the sample shows that the row is even, which
  /// means that a few values do not have most of the weight. The function reads only the sample
  /// and, if known, the largest value of the row.
  std::optional<Bracket> of_even_row(const RowIndex& row, RowSample& sample, float top_p,
                                     float from);
  /// Returns the bracket of a row that is not even. Precondition: the row has been scanned or
  /// indexed.
  Bracket of_uneven_row(RowIndex& row, ValueList& list, RowSample& sample, float top_p, float from);

 private:
  /// Largest values of a row, which are the values >= `low`, with their estimated weight. The
  /// estimates are doubles, in units of 2^kRowBits.
  struct Head {
    float low;
    double weight;
  };
  /// Weight of the sampled values below the head, with the sum of their squared weights.
  struct Tail {
    double weight, square;
  };

  static Head no_head(const RowIndex& row);
  Head weigh_head(RowIndex& row, ValueList& list, std::size_t size, float from);
  Tail weigh_tail(const RowIndex& row, RowSample& sample, const Head& head, float from);
  Bracket in_tail(const RowIndex& row, const RowSample& sample, double p, float from,
                  const Head& head, double target);

  std::vector<float> tile_max_;
  std::vector<std::uint64_t> head_weights_;
  std::vector<std::uint64_t> sample_weights_;
  std::vector<float> known_values_;  // sampled values that are in the bracket
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
