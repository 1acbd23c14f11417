// `identify` in the service of a red run: where a sampler does otherwise than the profile that it
// is judged by, so that a run and `identify` name the same cause.
#pragma once

#include <cstdint>

#include "harness/run/evidence/record.h"
#include "reference/semantics.h"
#include "suites/gate/identify/identify.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// What was found, beside a profile. Nothing where no probe was answered.
std::optional<harness::SeenDefinitions> seen_beside(const Identification& found,
                                                    const reference::Semantics& profile);

/// Asks each sampler of the record that failed a case whose causes lie in its filters, under seeds
/// made from the record's. A sampler that cannot be made, or breaks, is as if it had not been
/// asked: its cases have said so.
void note_seen_definitions(const SamplerMaker& make, harness::RunRecord& record);

}  // namespace fairdraw::suites
