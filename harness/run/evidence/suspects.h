// Which class of bug looks like this: a reader's first guess, made from the evidence by rules that
// say their reason. It decides nothing.
#pragma once

#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Of a failed outcome of check `check`: appends the classes to its evidence, likeliest first. The
/// classes are those of suites/gate/mutants: "lost tokens: ...", "temperature", "boundary of the
/// mask", "ties", "shared random bits", "batch dependence", ... A rule on a profile calls a bin
/// strange where its exact binomial p-value, times the number of bins, is below 1e-6.
void add_suspects(const std::string& check, CheckOutcome& outcome);

/// Of an outcome that failed because the sampler gives no answers any more, and `why`: that is the
/// only suspect, because what the check is about says nothing of a crash.
void suspect_the_process(const std::string& why, CheckOutcome& outcome);

}  // namespace fairdraw::harness
