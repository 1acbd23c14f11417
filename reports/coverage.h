// Says in words and as JSON which features of a sampler a run judged, and which it did not.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/run/evidence/coverage.h"

namespace fairdraw::reports {

/// Returns "12 %", the share of the cases, rounded down so that 100 % means all of them.
std::string share_text(const harness::Coverage& coverage);

/// Returns "12 % of the suite applies to this sampler (145 of 1,209 cases); not judged: masks,
/// seeds", in plain text like the functions below.
std::string coverage_sentence(const harness::Coverage& coverage, const harness::RunRecord& record);

/// Returns "FAIRDRAW_PER_REQUEST_SEEDS for 162 cases (seeds, invariance); ...", the first `most`
/// things to declare next; empty if nothing would bring more cases.
std::string declare_sentence(const harness::Coverage& coverage, std::size_t most);

/// Returns names as a list: "seeds, invariance".
std::string listed(const std::vector<std::string>& names);

/// Returns the coverage for report.json, one object per sampler; null if the record has none.
nlohmann::ordered_json coverage_json(const harness::RunRecord& record);

}  // namespace fairdraw::reports
