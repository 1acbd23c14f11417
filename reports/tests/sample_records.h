// Records for the tests of reports/: nothing in them was measured.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// Evidence with every part in it.
harness::Evidence sample_evidence();

/// One case of each verdict on two samplers, every optional number both present and absent.
harness::RunRecord small_record();

/// small_record, which says what its cases exercise, what they lack, and what is required of it.
harness::RunRecord covered_record();

/// Text that breaks out of every medium: quotes, markup, newlines, pipes, backticks, terminal
/// escapes, bidirectional marks, NUL, and bytes that are not UTF-8.
std::string nasty_text();

/// small_record with nasty_text in every string that a sampler or a user can choose.
harness::RunRecord nasty_record();

std::vector<harness::BenchmarkRecord> benchmark_rows();

/// How often `part` stands in `text`.
std::size_t count_of(const std::string& text, const std::string& part);

}  // namespace fairdraw::reports
