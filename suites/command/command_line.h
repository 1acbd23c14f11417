// The command line as a function, for the programs `fairdraw` and `python -m fairdraw`.
#pragma once

#include <functional>
#include <vector>

#include "suites/command/options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// A verb that a program adds to those of the gate.
struct AddedVerb {
  const char* name;
  const char* what;
  std::function<int()> (*add)(CLI::App& app);
};

/// Additional verbs and samplers: the gate's self-test and the benchmarks. They take a quarter of
/// the compile time, so the program that only judges omits them.
struct Additions {
  std::vector<AddedVerb> verbs;
  suites::SamplerMaker make_mutant;  ///< makes a sampler `mutant:NAME` from NAME; empty: no mutants
};

/// Runs the verb that the arguments name; argv[0] is the program. Prints to stdout and stderr, and
/// never throws. Returns the exit code: 0 all passed; 1 a check failed; 2 bad usage or bad input; 3
/// nothing was tested, or a case had too few draws.
int command_line(int argc, char** argv, const Additions& additions = {});

}  // namespace fairdraw::cli
