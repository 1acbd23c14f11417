// From a failing case to a small one: RapidCheck's search, over simplifications of cases.
#pragma once

#include <rapidcheck/Seq.h>
#include <rapidcheck/Shrinkable.h>

#include <cstdint>
#include <functional>

#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

/// Simpler cases, the boldest first: fewer rows, outputs and tokens; options off; parameters at
/// their defaults; values 0, or integers. Each has some part simpler and none more complex, so that
/// a search through them ends.
rc::Seq<FuzzCase> simpler_cases(const FuzzCase& fuzz_case);

rc::Shrinkable<FuzzCase> with_shrinks(FuzzCase fuzz_case);

struct Shrunk {
  FuzzCase fuzz_case;
  std::uint64_t evaluations = 0;
};

/// Goes to the first simpler case that fails, and on from there, until none does or `fails` was
/// asked `max_evaluations` times. `fails` may change the case that it is given (a statistical
/// failure is judged on fresh draws, and the case keeps the seed that showed it).
Shrunk shrink(const rc::Shrinkable<FuzzCase>& failing, std::uint64_t max_evaluations,
              const std::function<bool(FuzzCase&)>& fails);

}  // namespace fairdraw::suites::fuzz
