// Computes how a suite covers a sampler: which features were judged, and which abilities would have
// to be declared to judge the others. Coverage depends on the record alone, so that merged shards
// have the coverage of the whole run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// The features of samplers, which are the rows of features.inc.
enum class Feature {
#define FAIRDRAW_FEATURE(name, abilities, what) name,
#include "harness/run/evidence/features.inc"
};

std::string_view to_string(Feature feature);
std::vector<std::string> feature_names();
/// Returns a text about what the cases of a feature judge, or an empty one for an unknown name.
std::string_view what_is_judged(std::string_view feature);
/// Returns whether a feature is an operation on rows.
bool is_operation(std::string_view feature);
/// Returns the abilities that a feature needs, by their names in abilities.inc.
std::vector<std::string_view> abilities_of(std::string_view feature);

/// An ability that a sampler does not declare, and the cases that the declaration would add.
struct Undeclared {
  std::string ability;
  std::uint64_t skipped = 0;  ///< cases skipped because the ability is missing
  std::uint64_t in_part = 0;  ///< cases that ran without a part that needs the ability
  /// Features that were not judged: those of this ability, and features without abilities of their
  /// own.
  std::vector<std::string> features = {};
};

/// The coverage of one feature for a sampler.
struct FeatureCoverage {
  std::string name;
  std::uint64_t cases = 0;  ///< number of cases that use the feature
  std::uint64_t ran = 0;    ///< of these, cases that passed or failed with the feature in them
  /// True if cases ran, and at least as many as were skipped because the feature's own abilities
  /// are missing. Cases that were skipped for other reasons (another filter, another dtype, rows
  /// that the semantics leave undefined) do not count.
  bool judged = false;
  bool claim = false;  ///< true for a claim that the sampler does not make (no gap)
  /// Abilities that would let more cases of the feature run: its own abilities if these are
  /// missing, otherwise those that its skipped cases need.
  std::vector<std::string> lacks = {};
};

/// Vocabulary sizes, or a type of rows, for which none of the cases of some features ran, although
/// the run asked for them and judged these features elsewhere.
struct UnjudgedPlace {
  std::string where;                  ///< text such as "in bfloat16 above 65,536 ids"
  std::vector<std::string> features;  ///< empty if no case ran in this place
};

/// The coverage of one sampler of a run. The case `global`, which combines all p-values, does not
/// count.
struct Coverage {
  std::string sampler;
  std::uint64_t cases = 0, ran = 0, skipped = 0;
  std::vector<FeatureCoverage> features;  ///< features that some case uses, in their order
  std::vector<Undeclared> undeclared;     ///< abilities that skipped most cases come first
  std::vector<UnjudgedPlace> places;      ///< whole types first, then sizes, then sizes of a type

  std::vector<std::string> not_judged() const;  ///< names of features not judged, without claims
};

/// Returns one coverage per sampler, in the order of the record. Returns no coverage if no case
/// lists its features, as in records before version 3.3.
std::vector<Coverage> coverage_of(const RunRecord& record);

/// Returns a sentence for each requirement of the record (`required` and `max_skipped`) that the
/// run does not meet.
std::vector<std::string> unmet_requirements(const RunRecord& record);

}  // namespace fairdraw::harness
