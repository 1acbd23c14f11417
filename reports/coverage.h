// What a run judged of a sampler and what it did not, in words and as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/run/evidence/coverage.h"

namespace fairdraw::reports {

/// "12 %" of the cases; rounded down, so that 100 % means all of them.
std::string share_text(const harness::Coverage& coverage);

/// "12 % of the suite applies to this sampler (145 of 1,209 cases); not judged: masks, seeds".
/// Plain text; so are the others.
std::string coverage_sentence(const harness::Coverage& coverage, const harness::RunRecord& record);

/// "FAIRDRAW_PER_REQUEST_SEEDS for 162 cases (seeds, invariance); ...": what to declare next, the
/// first `most` of it; empty where nothing would bring more.
std::string declare_sentence(const harness::Coverage& coverage, std::size_t most);

/// "seeds, invariance": names as a list.
std::string listed(const std::vector<std::string>& names);

/// What report.json says of it, an object a sampler; null where the record says nothing.
nlohmann::ordered_json coverage_json(const harness::RunRecord& record);

}  // namespace fairdraw::reports
