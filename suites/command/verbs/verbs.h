// The verbs of the command line. Each function adds the options of a verb to the parser. Each
// function returns another function, which runs the verb and returns its exit code.
// harness::UsageError means exit code 2.
#pragma once

#include <functional>

#include "suites/command/options.h"

namespace fairdraw::cli {

using Verb = std::function<int()>;

Verb add_verify(CLI::App& app);
Verb add_replay(CLI::App& app);
Verb add_list(CLI::App& app);
Verb add_identify(CLI::App& app);
Verb add_fuzz(CLI::App& app);
Verb add_sample(CLI::App& app);
Verb add_bench(CLI::App& app);
Verb add_calibrate(CLI::App& app);
Verb add_report(CLI::App& app);
Verb add_compare(CLI::App& app);
Verb add_merge(CLI::App& app);
Verb add_mutants(CLI::App& app);

}  // namespace fairdraw::cli
