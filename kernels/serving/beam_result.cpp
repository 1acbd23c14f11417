// Finds the best sequences of a beam search on the CPU, by reading them back from the history.
//
// The eligible sequences of a request are collected and sorted by score, and the first of them are
// read back, by the rules that both backends share (beam_result_rules.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/float_environment.h"
#include "fairdraw/beam_search.h"
#include "serving/rules/beam_result_rules.h"

namespace fairdraw {
namespace {

/// Collects the eligible sequences of a request, with the best sequence first. The function is not
/// inlined, because its arithmetic must stay inside the floating-point environment that the caller
/// sets.
[[gnu::noinline]] RowStatus gather(const BeamResultRequest& request, std::int64_t r,
                                   std::vector<FinishedBeam>& all) {
  all.clear();
  const BeamResultTerms terms = read_result_terms(request, r);
  if (terms.status != RowStatus::ok) return terms.status;
  for (std::int32_t i = 0; i < terms.count(); ++i) {
    all.push_back(sequence_of(request, r, terms, i));
    if (std::isnan(all.back().score)) return RowStatus::nan_input;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const FinishedBeam& a, const FinishedBeam& b) { return a.score > b.score; });
  return RowStatus::ok;
}

RowStatus write_sequences(const BeamResultRequest& request, const BeamSequences& result,
                          std::int64_t r, const std::vector<FinishedBeam>& all) {
  const auto there = std::min(static_cast<std::int32_t>(all.size()), request.best);
  for (std::int32_t i = 0; i < there; ++i) {
    if (!write_sequence(request, result, r, i, all[static_cast<std::size_t>(i)])) {
      return RowStatus::invalid_history;
    }
  }
  return RowStatus::ok;
}

void write_none(const BeamResultRequest& request, const BeamSequences& result, std::int64_t r) {
  const std::int64_t steps = request.history.max_steps;
  std::fill_n(result.tokens.data + r * request.best * steps, request.best * steps, -1);
  for (std::int32_t i = 0; i < request.best; ++i) write_no_sequence(request, result, r, i);
}

}  // namespace

Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result) {
  if (Error error = check_beam_result(request, result)) return error;
  const cpu::FloatEnvironment environment;
  std::vector<FinishedBeam> all;
  for (std::int64_t r = 0; r < request.requests; ++r) {
    write_none(request, result, r);
    RowStatus status = gather(request, r, all);
    if (status == RowStatus::ok) {
      status = write_sequences(request, result, r, all);
      if (status != RowStatus::ok) write_none(request, result, r);
    }
    if (result.statuses.given()) result.statuses.data[r] = status;
  }
  return {};
}

}  // namespace fairdraw
