// The command line as a function: what the program `fairdraw` and `python -m fairdraw` both are.
#pragma once

namespace fairdraw::cli {

/// Runs the verb that the arguments name; argv[0] is the program. Prints to stdout and stderr,
/// never throws. Returns the exit code: 0 all passed; 1 a check failed; 2 bad usage or bad input; 3
/// nothing was tested, or a case had too few draws.
int command_line(int argc, char** argv);

}  // namespace fairdraw::cli
