// A trial of what a red run says of mistakes that show only under a condition: mutants that are
// wrong in some rows and right in all others, mutant and condition chosen by a hash of the name.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {

/// A mutant whose mistake shows only in rows for which a condition holds.
struct ConditionalMutant {
  const Mutant* of = nullptr;
  Mutant mutant;              ///< `of`, in these rows alone
  std::string subject, text;  ///< of the condition (harness/run/calls/conditions.h)
};

/// The conditions that go with a mutant, in the order of a hash: without those that its sentence is
/// about, which would change nothing.
std::vector<ConditionalMutant> under_conditions(const Mutant& mutant);

/// How the first sentence of a red run is judged.
enum class FirstSentence {
  right,       ///< the defect and the condition
  place,       ///< one of them, and nothing wrong of the other; or what the wrong rows share
  misleading,  ///< another defect, or another condition
  none,        ///< no cause
};
inline constexpr std::array kFirstSentences = {"right", "place", "misleading", "none"};

FirstSentence judge_first_sentence(const ConditionalMutant& mutant,
                                   const std::vector<harness::Cause>& causes);

struct ConditionalOutcome {
  ConditionalMutant mutant;
  MutantOutcome outcome;
};

/// The first `count` of the held-out mutants, or of the others, by a hash of their names, each
/// under the first of its conditions under which suite smoke finds it. Those that it finds under
/// none of the first three are left out, and say nothing of causes.
std::vector<ConditionalOutcome> run_conditional_trial(bool held_out, std::size_t count,
                                                      const KillOptions& options,
                                                      const KillProgress& progress);

}  // namespace fairdraw::suites
