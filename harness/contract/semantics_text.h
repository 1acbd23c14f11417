// Semantics by name, as a command line, a plugin or a capsule says them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/semantics.h"

namespace fairdraw::harness {

/// A profile, and where it differs: "hf", or "hf,top_k_ties=any_k,greedy_below=1e-5"; the fields
/// and values of reference/semantics.h by their names. What it returns has the whole text as its
/// name, so that it is never taken for the profile itself. Throws UsageError for a name that there
/// is none of (with the closest), a number outside of its range, and a field that is given twice.
reference::Semantics semantics_from_text(std::string_view text);

/// Where semantics leave rows unjudged, or allow more than engines do, a sentence each: there a
/// green report says less than it seems to. Empty for semantics that define everything.
std::vector<std::string> allowances_of(const reference::Semantics& semantics);

}  // namespace fairdraw::harness
