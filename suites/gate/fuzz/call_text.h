// Writes a fuzz case as source code: a finding shows its rows as a program that runs without
// fairdraw.
#pragma once

#include <string>

#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

/// Returns Python code that calls `sampler` with the rows, and needs only NumPy. `sampler` takes a
/// batch in the form that fairdraw.verify passes. Returns an empty string if the case has drafted
/// tokens, logits processing, or more than kMaxShownValues logits; the capsule has such cases
/// nevertheless.
std::string python_call(const FuzzCase& fuzz_case, const std::string& sampler = "sampler");

/// Returns a C11 program that calls fairdraw_plugin_run and prints the tokens. The program is
/// compiled together with the source code of a plugin. Returns an empty string for the same cases
/// as python_call.
std::string c_call(const FuzzCase& fuzz_case);

inline constexpr std::size_t kMaxShownValues = 4096;

}  // namespace fairdraw::suites::fuzz
