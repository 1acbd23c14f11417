// Sample records for the tests of reports/. The values in these records are invented, not measured.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// Returns evidence in which no part is empty.
harness::Evidence sample_evidence();

/// Returns a record with one case of each verdict on two samplers, in which every optional number
/// is present in one case and absent in another.
harness::RunRecord small_record();

/// Returns small_record() with the features that its cases exercise, the abilities that the
/// samplers lack, and requirements.
harness::RunRecord covered_record();

/// Returns text that could break every medium: quotes, markup, newlines, pipes, backticks, terminal
/// escapes, bidirectional marks, NUL, and bytes that are not UTF-8.
std::string nasty_text();

/// Returns small_record() with nasty_text() in every string that a sampler or a user can choose.
harness::RunRecord nasty_record();

std::vector<harness::BenchmarkRecord> benchmark_rows();

/// Returns how often `part` occurs in `text`.
std::size_t count_of(const std::string& text, const std::string& part);

}  // namespace fairdraw::reports
