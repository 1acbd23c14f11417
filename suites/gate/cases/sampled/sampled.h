// Cases that leave values to the run's seed: the vocabulary, the rows, and temperatures and filters
// from continuous ranges. A sampler that is right only on the sizes, rows and parameters of the
// case table meets other values with each commit. The id of such a case says which values the seed
// chooses and from which range (`v40-250`, `sampled+top_p`), and is the same for every seed.
// `vmodel-3` takes the vocabularies of models in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {

struct Case;

/// The values that a case leaves to the run's seed, in addition to its rows.
struct Sampled {
  /// The ranges of sampled values. The range `everywhere` is for cases with many rows. In
  /// `everywhere`, temperatures lie from 1/16 to 16, of which three in four are uniform up to 2.
  /// top_k lies from 1 to the vocabulary. top_p and min_p lie in (0, 1), of which half are uniform,
  /// and the others within 2^-1 to 2^-12 of the end. `moderate` is for one row that must keep many
  /// tokens. In `moderate`, temperatures lie from 1/2 to 2, top_k from a quarter of the vocabulary
  /// on, top_p from 0.7 on, and min_p up to 0.02; all are uniform.
  enum class Spread { everywhere, moderate };

  std::int64_t smallest_vocab = 1, largest_vocab = 1;  ///< both are allowed
  /// If set, the vocabulary is that of a model (harness/inputs/model_vocabularies.h): so many
  /// places after the model that the run's seed chooses first. So a set of cases with one turn per
  /// model covers every model's vocabulary, whatever the seed.
  std::optional<std::size_t> turn = {};
  Filters filters = {};  ///< besides the temperature
  Spread spread = Spread::everywhere;
  std::size_t operations = 1;   ///< number of different operations; 0: the case keeps its own
  std::uint64_t rows_seed = 0;  ///< seed of the rows; 0: the values are not filled in yet
};

/// Bounds of all sampled temperatures, and of top_p and min_p; beyond the latter bounds, a filter
/// is off.
inline constexpr float kMinSampledTemperature = 0x1p-4F, kMaxSampledTemperature = 16;
inline constexpr float kMinSampledFraction = 0x1p-20F, kMaxSampledFraction = 1 - 0x1p-20F;

/// Returns the part of an id for the operations: `sampled`, or with filters
/// `sampled+min_p+top_k+top_p`.
std::string sampled_name(const Filters& filters);

/// Returns the operations that `seed` chooses. Only integer and IEEE operations are used, so that
/// the chosen values are the same on every machine.
std::vector<Operation> sampled_operations(const Sampled& sampled, std::int64_t vocab,
                                          std::uint64_t seed);

/// Returns `entry` with the vocabulary, the operations and the seed of the rows that the run's seed
/// chooses. Precondition: `entry.sampled` is set.
Case with_sampled_values(const Case& entry, std::uint64_t run_seed);

/// Returns `entry`; if it leaves values to the seed that are not filled in yet, they are filled in.
Case with_values(const Case& entry, std::uint64_t run_seed);

/// Returns a description of the values that with_sampled_values has filled in, for the record:
/// "vocabulary 187, temperature 0.8123, top_p 0.71", the number of operations, or the vocabulary
/// alone.
std::string describe_sampled(const Case& entry);

/// Returns the smallest fraction of the values of Spread::everywhere that a band of this width has:
/// a band of temperatures within [1/16, 2), or a band of top_p or min_p within (0, 1). n rows miss
/// such a band with a probability of at most (1 - fraction)^n.
double part_of_temperature_band(double width);
double part_of_fraction_band(double width);

}  // namespace fairdraw::suites
