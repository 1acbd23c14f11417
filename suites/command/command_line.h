// The command line is a function, for the programs `fairdraw` and `python -m fairdraw`.
#pragma once

#include <functional>
#include <vector>

#include "suites/command/options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// A verb that a program adds to the verbs of the gate.
struct AddedVerb {
  const char* name;
  const char* what;
  std::function<int()> (*add)(CLI::App& app);
};

/// Further verbs and samplers that a program may have: the gate's self-test and the benchmarks. The
/// program that only judges has neither the self-test nor the benchmarks, because they take a
/// quarter of the compile time.
struct Additions {
  std::vector<AddedVerb> verbs;
  suites::SamplerMaker make_mutant;  ///< makes the sampler `mutant:NAME` from NAME; empty if the
                                     ///< program has no mutants
};

/// Runs the verb that the arguments name; argv[0] is the name of the program. Prints to stdout and
/// stderr, and throws no exception. Returns the exit code: 0 if all cases passed; 1 if a check
/// failed; 2 for bad usage or bad input; 3 if nothing was tested, or a case had too few draws.
int command_line(int argc, char** argv, const Additions& additions = {});

}  // namespace fairdraw::cli
