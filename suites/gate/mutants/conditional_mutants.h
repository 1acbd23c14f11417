// A trial of the causes that a failed run names for mistakes that show only under a condition. The
// mutants are wrong in some rows and right in all others; a hash of the seed and the name chooses
// mutant and condition.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {

/// A mutant whose mistake shows only in rows for which a condition holds.
struct ConditionalMutant {
  const Mutant* of = nullptr;
  Mutant mutant;              ///< the mutant, wrong only in rows with the condition
  std::string subject, text;  ///< subject and text of the condition
                              ///< (harness/run/calls/conditions.h)
};

/// Returns a mutant under each of its conditions, in the order of a hash of `seed`. Omits
/// conditions that the mutant's sentence is about, because they would change nothing.
std::vector<ConditionalMutant> under_conditions(const Mutant& mutant, std::uint64_t seed);

/// The verdict on the first sentence of a failed run's report.
enum class FirstSentence {
  right,  ///< the sentence names the defect and the condition
  place,  ///< the sentence names the defect or the condition and says nothing wrong about the other
          ///< one, or names a property that the wrong rows or their results share
  misleading,  ///< the sentence names another defect, or another condition
  none,        ///< no cause
};
inline constexpr std::array kFirstSentences = {"right", "place", "misleading", "none"};

FirstSentence judge_first_sentence(const ConditionalMutant& mutant,
                                   const std::vector<harness::Cause>& causes);

struct ConditionalOutcome {
  ConditionalMutant mutant;
  MutantOutcome outcome;

  /// Returns the verdict, the mutant, its condition and the first sentence as a line.
  std::string line() const;
};

/// Runs the first `count` of the mutants, by a hash of the run's seed and their names, each under
/// its first condition under which suite smoke finds it. So a fresh seed is a fresh trial. Mutants
/// that suite smoke finds under none of their first three conditions are left out, because they say
/// nothing about causes.
std::vector<ConditionalOutcome> run_conditional_trial(std::vector<const Mutant*> mutants,
                                                      std::size_t count, const KillOptions& options,
                                                      const KillProgress& progress);

}  // namespace fairdraw::suites
