// A case as source text: what a finding shows of its rows, to be run without fairdraw.
#pragma once

#include <string>

#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

/// The rows, and a call of `sampler` with them, as Python that needs NumPy alone: `sampler` takes a
/// batch, as fairdraw.verify calls it. Empty where the case is no batch of rows (drafts), has
/// logits processing, or has more than kMostShownValues logits: the capsule has these.
std::string python_call(const FuzzCase& fuzz_case, const std::string& sampler = "sampler");

/// The same as a C11 program, to be compiled with the source of a plugin: it calls
/// fairdraw_plugin_run and prints the tokens.
std::string c_call(const FuzzCase& fuzz_case);

inline constexpr std::size_t kMostShownValues = 4096;

}  // namespace fairdraw::suites::fuzz
