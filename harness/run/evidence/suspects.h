// Names the class of bugs that would cause a failure: a first guess for readers, derived from the
// evidence by rules that state their reason. It decides nothing.
#pragma once

#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Appends classes of bugs, likeliest first, to the evidence of a failed outcome of check `check`.
/// The classes are those of suites/gate/mutants: "lost tokens: ...", "temperature", "boundary of
/// the mask", "ties", "shared random bits", "batch dependence", ... Rules about a profile call a
/// bin strange if its exact binomial p-value, times the number of bins, is below 1e-6.
void add_suspects(const std::string& check, CheckOutcome& outcome);

/// Appends the cause that draws of marked rows, over random keys, do not have the distribution of
/// unmarked rows.
void suspect_the_marks(CheckOutcome& outcome);

/// Names a crash as the only suspected cause of an outcome that failed because the sampler no
/// longer answers (`why`), because the check's subject says nothing about a crash.
void suspect_the_process(const std::string& why, CheckOutcome& outcome);

}  // namespace fairdraw::harness
