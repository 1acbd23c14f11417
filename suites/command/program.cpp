// The program `fairdraw` that only judges.
#include "suites/command/command_line.h"

int main(int argc, char** argv) { return fairdraw::cli::command_line(argc, argv); }
