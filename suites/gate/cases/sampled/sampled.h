// Cases that leave values to the run's seed: the vocabulary, the rows, and temperatures and filters
// from continuous ranges. A sampler that is right only on the sizes, rows and parameters of the
// case table meets other values in each commit. The case's id says which values are drawn and from
// where (`v40-250`, `sampled+top_p`), and stays the same for every seed. `vmodel-3` takes the
// vocabularies of models in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {

struct Case;

/// The values that a case leaves to the run's seed, besides its rows.
struct Sampled {
  /// `everywhere` is for cases with many rows. Temperatures from 1/16 to 16, three in four of them
  /// uniform up to 2; top_k from 1 to the vocabulary; top_p and min_p from (0, 1), half of them
  /// uniform, the others within 2^-1 to 2^-12 of the end. moderate: for one row that must keep many
  /// tokens. Temperatures from 1/2 to 2, top_k from a quarter of the vocabulary, top_p from 0.7,
  /// min_p to 0.02; all uniform.
  enum class Spread { everywhere, moderate };

  std::int64_t smallest_vocab = 1, largest_vocab = 1;  ///< both are allowed
  /// If set, the vocabulary is that of a model (harness/inputs/model_vocabularies.h): this many
  /// places after the model that the run's seed chooses first. A set of cases with one turn per
  /// model therefore covers every model's vocabulary, whatever the seed.
  std::optional<std::size_t> turn = {};
  Filters filters = {};  ///< besides the temperature
  Spread spread = Spread::everywhere;
  std::size_t operations = 1;   ///< number of different operations; 0: keep the case's
  std::uint64_t rows_seed = 0;  ///< seed of the rows; 0: the values are not filled in yet
};

/// Bounds of all sampled temperatures, and of top_p and min_p; beyond the latter a filter is off.
inline constexpr float kLeastSampledTemperature = 0x1p-4F, kMostSampledTemperature = 16;
inline constexpr float kLeastSampledFraction = 0x1p-20F, kMostSampledFraction = 1 - 0x1p-20F;

/// Returns the operations' part of an id: `sampled`, or with filters `sampled+min_p+top_k+top_p`.
std::string sampled_name(const Filters& filters);

/// Returns the operations that `seed` chooses. Only integer and IEEE operations are used, so that
/// the chosen values are the same on every machine.
std::vector<Operation> sampled_operations(const Sampled& sampled, std::int64_t vocab,
                                          std::uint64_t seed);

/// Returns `entry` with the vocabulary, operations and rows' seed that the run's seed gives.
/// Precondition: `entry.sampled` is set.
Case with_sampled_values(const Case& entry, std::uint64_t run_seed);

/// Returns `entry`, with sampled values filled in if it needs them and has none yet.
Case with_values(const Case& entry, std::uint64_t run_seed);

/// Describes the values that with_sampled_values has filled in, for the record: "vocabulary 187,
/// temperature 0.8123, top_p 0.71", the number of operations, or the vocabulary alone.
std::string describe_sampled(const Case& entry);

/// Return the smallest fraction of Spread::everywhere's temperatures (of its top_p and min_p) in
/// any band of this width within [1/16, 2) (within (0, 1)). n rows miss such a band with
/// probability at most (1 - fraction)^n.
double part_of_temperature_band(double width);
double part_of_fraction_band(double width);

}  // namespace fairdraw::suites
