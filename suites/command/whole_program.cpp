// The program `fairdraw` with the gate's self-test and the benchmarks.
#include "suites/command/command_line.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/mutants/catalogue.h"

int main(int argc, char** argv) {
  using namespace fairdraw;
  const cli::Additions additions{
      .verbs = {{"bench", "Measure the speed of samplers", cli::add_bench},
                {"calibrate",
                 "Show that the gate's statistics pass right samplers as often as they state",
                 cli::add_calibrate},
                {"mutants", "Test the gate itself, by wrong samplers that it must find",
                 cli::add_mutants}},
      .make_mutant = suites::make_mutant};
  return cli::command_line(argc, argv, additions);
}
