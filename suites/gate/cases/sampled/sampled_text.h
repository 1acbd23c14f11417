// Text of the values that the run's seed chose for a case, as one word of its replay line. So a
// replay restores the values even if the ranges of sampled.h have changed, and the seed would now
// choose other values.
#pragma once

#include <string>
#include <string_view>

#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// Returns a text such as `vocab=187,temperature=0.8123,top_p=0.71,rows=1f2e3d4c5b6a7988` for a
/// case whose values are filled in; `rows` is the seed of the rows. Many operations are written as
/// their number and a hash: `operations=4096:1f2e3d4c5b6a7988`. Operations of the case itself are
/// omitted. Numbers are written as the shortest decimals that give the same float32.
std::string sampled_text(const Case& drawn);

/// Returns `drawn` with the values that the text states. Throws harness::UsageError if a value is
/// missing, unknown, repeated or outside the range of all sampled cases, or if the operations are
/// not those that the seed chose.
Case with_sampled_text(const Case& drawn, std::string_view text);

}  // namespace fairdraw::suites
