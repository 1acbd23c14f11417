// How much of a suite applied to a sampler: which features were judged, and what would have to be
// declared for the others. A function of the record alone, so shards that are merged have that of
// the whole run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// The rows of features.inc.
enum class Feature {
#define FAIRDRAW_FEATURE(name, abilities, what) name,
#include "harness/run/evidence/features.inc"
};

std::string_view to_string(Feature feature);
std::vector<std::string> feature_names();
/// What of a sampler is judged by the cases of a feature. Empty for a name that is none.
std::string_view what_is_judged(std::string_view feature);
/// True of operations on rows by themselves.
bool is_operation(std::string_view feature);
/// The abilities that it takes, by the names of abilities.inc.
std::vector<std::string_view> abilities_of(std::string_view feature);

/// An ability that a sampler does not declare, and the cases that it would bring.
struct Undeclared {
  std::string ability;
  std::uint64_t skipped = 0;  ///< cases that were skipped for the want of it
  std::uint64_t in_part = 0;  ///< cases that ran, but for a part that needs it
  /// Of those that were not judged: the ability's own, and those that have none of their own.
  std::vector<std::string> features = {};
};

/// What a sampler was asked about one feature.
struct FeatureCoverage {
  std::string name;
  std::uint64_t cases = 0;  ///< that exercise it
  std::uint64_t ran = 0;    ///< of these, those that passed or failed with the feature in them
  /// Cases ran, and no fewer than were skipped for the want of the feature's own abilities. What
  /// was skipped for others (another filter, another dtype) or because the semantics define none of
  /// the rows says nothing against it.
  bool judged = false;
  bool claim = false;  ///< it is a claim that the sampler does not make, and no gap
  /// Abilities that would have more of its cases run: its own, where these are missing, else those
  /// that its skipped cases need.
  std::vector<std::string> lacks = {};
};

/// Of one sampler of a run. The case `global` of all p-values together does not count.
struct Coverage {
  std::string sampler;
  std::uint64_t cases = 0, ran = 0, skipped = 0;
  std::vector<FeatureCoverage> features;  ///< that a case of the run exercises, in their order
  std::vector<Undeclared> undeclared;     ///< those that most cases were skipped for first

  std::vector<std::string> not_judged() const;  ///< features, without claims
};

/// One a sampler, in the order of the record. Empty where no case says what it exercises, as in
/// records of before 3.3.
std::vector<Coverage> coverage_of(const RunRecord& record);

/// What the record's `required` and `max_skipped` ask for and the run does not have, a sentence
/// each; empty: nothing is missing.
std::vector<std::string> unmet_requirements(const RunRecord& record);

}  // namespace fairdraw::harness
