// `identify` for a failed run: it finds where a sampler deviates from the profile by which it is
// judged, so that a run and `identify` name the same cause.
#pragma once

#include <cstdint>

#include "harness/run/evidence/record.h"
#include "reference/semantics.h"
#include "suites/gate/identify/identify.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Returns the identified definitions beside those of a profile, or nothing if no probe was
/// answered.
std::optional<harness::SeenDefinitions> seen_beside(const Identification& found,
                                                    const reference::Semantics& profile);

/// Identifies each sampler of the record that failed a case whose causes are in the filters, with
/// seeds made from the record's seed. Skips a sampler that cannot be made or breaks, because its
/// cases already report that.
void note_seen_definitions(const SamplerMaker& make, harness::RunRecord& record);

}  // namespace fairdraw::suites
