// A guess where the nucleus of a row ends: a bracket of values (nucleus.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/row_index.h"
#include "cpu/selection.h"
#include "cpu/value_list.h"

namespace fairdraw::cpu {

/// listed: the list holds all values >= low already. one_value: many ties of one value, which are
/// counted. to_list: values are listed by the pass that measures the row.
enum class BracketKind { listed, one_value, to_list };

/// The nucleus is guessed to end in [low, high].
struct Bracket {
  float low, high;
  BracketKind kind;
  bool one_value() const { return kind == BracketKind::one_value; }
};

/// Values of pieces spread over a row.
struct RowSample {
  /// Lists the pieces' values in [low, high].
  void take(const RowIndex& row, float low, float high);

  std::vector<float> values;
  std::size_t size = 0;   ///< values in [low, high]
  std::size_t taken = 0;  ///< values sampled
};

class NucleusGuess {
 public:
  /// The bracket of a row whose sample is not taken. Weights count from `from` up.
  Bracket of_row(RowIndex& row, ValueList& list, RowSample& sample, float top_p, float from);
  /// The bracket of a row whose sample is taken, if that shows an even row: one whose weight is not
  /// that of few values. Reads the sample alone, and the row's largest value as far as it is known.
  std::optional<Bracket> of_even_row(const RowIndex& row, RowSample& sample, float top_p,
                                     float from);
  /// The bracket of any other row. A row that was not scanned is indexed.
  Bracket of_uneven_row(RowIndex& row, ValueList& list, RowSample& sample, float top_p, float from);

 private:
  /// The largest values of a row, from `low` up, and roughly their weight (roughly: estimates are
  /// in doubles, in units of 2^kRowBits).
  struct Head {
    float low;
    double weight;
  };
  /// Weight and sum of squared weights of the sample's rest.
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
  std::vector<float> known_values_;  // the sample's values in a bracket
  SelectionScratch scratch_;
};

}  // namespace fairdraw::cpu
