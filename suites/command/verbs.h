// The verbs of the command line. Each adds its options to the parser and returns what to call when
// it was chosen; that call returns the exit code. harness::UsageError means exit code 2.
#pragma once

#include <functional>

namespace fairdraw::cli {

class App;

using Verb = std::function<int()>;

Verb add_verify(App& app);
Verb add_replay(App& app);
Verb add_list(App& app);
Verb add_identify(App& app);
Verb add_fuzz(App& app);
Verb add_sample(App& app);
Verb add_bench(App& app);
Verb add_calibrate(App& app);
Verb add_report(App& app);
Verb add_compare(App& app);
Verb add_merge(App& app);
Verb add_mutants(App& app);

}  // namespace fairdraw::cli
