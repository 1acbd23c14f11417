// Cases that leave values to the run's seed: the vocabulary, the rows, and temperatures and filters
// from continuous ranges. A sampler that is right on the table's sizes, rows and parameters alone
// meets others in each commit. The id says where values are drawn (`v40-250`, `sampled+top_p`), and
// stays the same for every seed. `vmodel-3` takes its turn with the vocabularies of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {

struct Case;

/// What a case leaves to the run's seed, besides its rows.
struct Sampled {
  /// everywhere: for many rows. Temperatures from 1/16 to 16, three in four of them evenly up to 2;
  /// top_k from 1 to the vocabulary; top_p and min_p from all of (0, 1), half of them evenly, the
  /// others within 2^-1 to 2^-12 of their end.
  /// moderate: for one row, of which many tokens must be left to draw from. Temperatures from 1/2
  /// to 2, top_k from a quarter of the vocabulary, top_p from 0.7, min_p to 0.02; all evenly.
  enum class Spread { everywhere, moderate };

  std::int64_t smallest_vocab = 1, largest_vocab = 1;  ///< both are allowed
  /// The vocabulary is none of a range: it is that of a model
  /// (harness/inputs/model_vocabularies.h), so many places behind the one that the run's seed
  /// begins with. As many cases as there are models have each of them once, whatever the seed.
  std::optional<std::size_t> turn = {};
  Filters filters = {};  ///< besides the temperature
  Spread spread = Spread::everywhere;
  std::size_t operations = 1;   ///< how many different ones; 0: those of the case stay
  std::uint64_t rows_seed = 0;  ///< of a case with its values: the seed of its rows. 0: it has none
};

/// Bounds of all temperatures, and of top_p and min_p: beyond them a filter is off.
inline constexpr float kLeastSampledTemperature = 0x1p-4F, kMostSampledTemperature = 16;
inline constexpr float kLeastSampledFraction = 0x1p-20F, kMostSampledFraction = 1 - 0x1p-20F;

/// `sampled`, or with filters `sampled+min_p+top_k+top_p`: the operations' part of an id.
std::string sampled_name(const Filters& filters);

/// The operations that `seed` gives: made of integer and IEEE operations, the same everywhere.
std::vector<Operation> sampled_operations(const Sampled& sampled, std::int64_t vocab,
                                          std::uint64_t seed);

/// `entry`, which must be `sampled`, with the vocabulary, the operations and the rows' seed that
/// the run's seed gives.
Case with_sampled_values(const Case& entry, std::uint64_t run_seed);

/// `entry`, and where it leaves values to the run's seed and has none yet, with those.
Case with_values(const Case& entry, std::uint64_t run_seed);

/// "vocabulary 187, temperature 0.8123, top_p 0.71", how many operations there are, or the
/// vocabulary alone: what with_sampled_values has filled in, for the record.
std::string describe_sampled(const Case& entry);

/// Smallest part of all temperatures (top_p, min_p) of Spread::everywhere that lies in a band of
/// this width, wherever it is in [1/16, 2) (in (0, 1)). So n rows miss it with probability
/// (1 - part)^n.
double part_of_temperature_band(double width);
double part_of_fraction_band(double width);

}  // namespace fairdraw::suites
