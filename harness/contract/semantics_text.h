// Parses semantics by name, as a command line, a plugin or a capsule gives them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/semantics.h"

namespace fairdraw::harness {

/// Parses a profile with its deviations: "hf", or "hf,top_k_ties=any_k,greedy_below=1e-5". Fields
/// and values have the names of reference/semantics.h. The result's name is the whole text, so that
/// it is never mistaken for the profile itself. Throws UsageError for an unknown name (with the
/// closest one), a number out of range, and a repeated field.
reference::Semantics semantics_from_text(std::string_view text);

/// Returns a sentence for each way in which semantics leave rows unjudged or allow more than
/// engines do, because a green report then says less than it seems to. Returns no sentence for
/// semantics that define everything.
std::vector<std::string> allowances_of(const reference::Semantics& semantics);

}  // namespace fairdraw::harness
