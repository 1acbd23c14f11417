// The program `fairdraw` with only the verbs that judge.
#include "suites/command/command_line.h"

int main(int argc, char** argv) { return fairdraw::cli::command_line(argc, argv); }
