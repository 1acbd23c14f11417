// Parses semantics that a command line, a plugin or a capsule gives by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/semantics.h"

namespace fairdraw::harness {

/// Parses the name of a profile and its deviations, such as "hf" or
/// "hf,top_k_ties=any_k,greedy_below=1e-5". Fields and values have the same names as in
/// reference/semantics.h. The name of the result is the whole text, so that deviations are never
/// mistaken for the profile itself. Throws UsageError for an unknown name (the message has the
/// closest one), a number out of range, or a repeated field.
reference::Semantics semantics_from_text(std::string_view text);

/// Returns a sentence for each way in which the semantics leave rows unjudged or allow more than
/// engines do, because a passing report then means less than it seems to. Returns no sentences for
/// semantics that define everything.
std::vector<std::string> allowances_of(const reference::Semantics& semantics);

}  // namespace fairdraw::harness
