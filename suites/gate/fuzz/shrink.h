// Shrinking makes a failing case simpler, by RapidCheck's search over simplifications of cases.
#pragma once

#include <rapidcheck/Seq.h>
#include <rapidcheck/Shrinkable.h>

#include <cstdint>
#include <functional>

#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

/// Returns simpler cases, those with the largest simplifications first. A simpler case has fewer
/// rows, outputs or tokens, an option that is off, a parameter at its default, or a value that is 0
/// or an integer. Each simpler case has a simpler part and no part that is more complex, so that
/// the search ends.
rc::Seq<FuzzCase> simpler_cases(const FuzzCase& fuzz_case);

rc::Shrinkable<FuzzCase> with_shrinks(FuzzCase fuzz_case);

struct Shrunk {
  FuzzCase fuzz_case;
  std::uint64_t evaluations = 0;
};

/// Moves to the first simpler case that fails, and repeats this until no simpler case fails, or
/// until `fails` was called `max_evaluations` times. `fails` may change its case: a statistical
/// failure is judged on fresh draws, and the case keeps the seed that showed the failure.
Shrunk shrink(const rc::Shrinkable<FuzzCase>& failing, std::uint64_t max_evaluations,
              const std::function<bool(FuzzCase&)>& fails);

}  // namespace fairdraw::suites::fuzz
