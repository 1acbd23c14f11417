// States in words and as JSON which features of a sampler a run judged, and which features it did
// not.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/run/evidence/coverage.h"

namespace fairdraw::reports {

/// Returns the share of the cases, such as "12 %", rounded down so that 100 % means all cases.
std::string share_text(const harness::Coverage& coverage);

/// Returns a sentence such as "12 % of the suite applies to this sampler (145 of 1,209 cases); not
/// judged: masks, seeds". The sentence is plain text, like
/// the results of the functions below.
std::string coverage_sentence(const harness::Coverage& coverage, const harness::RunRecord& record);

/// Returns the first `most` abilities to declare next, such as "FAIRDRAW_PER_REQUEST_SEEDS for 162
/// cases (seeds, invariance); ..."; empty if no ability would add cases.
std::string declare_sentence(const harness::Coverage& coverage, std::size_t most);

/// Returns the names as a list, such as "seeds, invariance".
std::string listed(const std::vector<std::string>& names);

/// Returns the coverage for report.json, with one object per sampler; null if the record has no
/// coverage.
nlohmann::ordered_json coverage_json(const harness::RunRecord& record);

}  // namespace fairdraw::reports
