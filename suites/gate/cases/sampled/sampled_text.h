// What the run's seed chose for a case, as a word of its replay line: the case comes back as it was
// even where the seed would choose something else, because the ranges of sampled.h have changed.
#pragma once

#include <string>
#include <string_view>

#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// `vocab=187,temperature=0.8123,top_p=0.71,rows=1f2e3d4c5b6a7988` of a case with its values. Many
/// operations are `operations=4096:1f2e3d4c5b6a7988` instead: how many, and a hash of them all.
/// Those of the case itself are not said. rows: the seed of its rows. Numbers are the shortest that
/// mean the same float32.
std::string sampled_text(const Case& drawn);

/// `drawn`, with the values that the text says. Throws harness::UsageError: a value is missing,
/// unknown, twice there or outside of what any sampled case may draw, or the operations are not
/// those that the seed chose.
Case with_sampled_text(const Case& drawn, std::string_view text);

}  // namespace fairdraw::suites
