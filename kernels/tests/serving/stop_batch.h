// Batches of requests that may end, for tests of every backend: cases by hand, random cases, and
// faults of one request.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "fairdraw/stop_criteria.h"
#include "reference/stop_model.h"
#include "tests/serving/token_list_rows.h"

namespace fairdraw::suites {

using Ids = std::vector<std::int32_t>;

/// One request of a batch, with its rules, output and new tokens.
struct StopCase {
  reference::StopRules rules;
  Ids output, step;
};

/// The results of a call for one request.
struct StopFound {
  reference::StopAnswer answer;
  std::int32_t output_length = -7;
  RowStatus status = RowStatus::ok;

  bool operator==(const StopFound&) const = default;
};

/// A function that checks a step, which is check_stop of a backend.
using StopChecker = std::function<Error(const StopRequest&, const StopResult&)>;

inline Error cpu_stops(const StopRequest& request, const StopResult& result) {
  return check_stop(request, result);
}

/// A batch with a buffer for each array, so that tests can make one array invalid before `run`.
struct StopBatch {
  explicit StopBatch(const std::vector<StopCase>& cases)
      : n(static_cast<std::int64_t>(cases.size())),
        output(outputs_of(cases)),
        stop_ids(lists_of(cases, [](const StopCase& c) { return c.rules.stop_ids; })),
        sequences(lists_of(cases, joined)),
        lengths(lists_of(cases, sequence_lengths)) {
    for (const StopCase& c : cases) width = std::max(width, c.step.size());
    for (const StopCase& c : cases) {
      Ids padded = c.step;
      padded.resize(width, -1);
      step.insert(step.end(), padded.begin(), padded.end());
      eos.push_back(c.rules.eos_id);
      ignore_eos.push_back(c.rules.ignore_eos ? 1 : 0);
      min_tokens.push_back(c.rules.min_tokens);
      max_tokens.push_back(c.rules.max_tokens);
    }
    request.requests = n;
    request.vocab = 1000;
    request.step_tokens = {step.data(), static_cast<std::int64_t>(step.size())};
    request.tokens_per_step = static_cast<std::int64_t>(width);
    request.output = output.lists();
    request.criteria.eos_id = {eos.data(), n};
    request.criteria.ignore_eos = {ignore_eos.data(), n};
    request.criteria.stop_ids = stop_ids.lists();
    request.criteria.stop_sequences = sequences.lists();
    request.criteria.stop_sequence_lengths = lengths.lists();
    request.criteria.min_tokens = {min_tokens.data(), n};
    request.criteria.max_tokens = {max_tokens.data(), n};
  }

  StopBatch(const StopBatch&) = delete;  // views point into the object
  StopBatch& operator=(const StopBatch&) = delete;

  /// Makes one call of a backend, and returns the result of each request. Unwritten values stay -7.
  std::vector<StopFound> run(const StopChecker& checker = cpu_stops) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<FinishReason> reasons(size, FinishReason{-7});
    Ids kept(size, -7), matched(size, -7), matched_lengths(size, -7), after(size, -7);
    std::vector<RowStatus> statuses(size, RowStatus{-7});
    StopResult result;
    result.reasons = {reasons.data(), n};
    result.kept = {kept.data(), n};
    result.matched = {matched.data(), n};
    result.matched_lengths = {matched_lengths.data(), n};
    result.output_lengths = {after.data(), n};
    result.statuses = {statuses.data(), n};
    error = checker(request, result);
    std::vector<StopFound> outcomes;
    for (std::size_t i = 0; i < size; ++i) {
      outcomes.push_back(
          {{reasons[i], kept[i], matched[i], matched_lengths[i]}, after[i], statuses[i]});
    }
    return outcomes;
  }

  template <class Function>
  static TokenListRows lists_of(const std::vector<StopCase>& cases, Function function) {
    std::vector<Ids> rows;
    for (const StopCase& c : cases) rows.push_back(function(c));
    return TokenListRows(rows);
  }
  static TokenListRows outputs_of(const std::vector<StopCase>& cases) {
    return lists_of(cases, [](const StopCase& c) { return c.output; });
  }
  static Ids joined(const StopCase& c) {
    Ids all;
    for (const Ids& s : c.rules.stop_sequences) all.insert(all.end(), s.begin(), s.end());
    return all;
  }
  static Ids sequence_lengths(const StopCase& c) {
    Ids all;
    for (const Ids& s : c.rules.stop_sequences) all.push_back(static_cast<std::int32_t>(s.size()));
    return all;
  }

  std::int64_t n;
  std::size_t width = 0;
  TokenListRows output, stop_ids, sequences, lengths;
  Ids step, eos, min_tokens, max_tokens;
  std::vector<std::uint8_t> ignore_eos;
  StopRequest request;
  Error error;
};

/// Returns a case over a small alphabet, so that sequences often match, overlap and nearly match.
inline StopCase random_stop_case() {
  const auto id = rc::gen::inRange(0, 3);
  StopCase c;
  c.output = *rc::gen::container<Ids>(id);
  c.step = *rc::gen::container<Ids>(id);
  c.rules.eos_id = *rc::gen::element(-1, -1, 2);
  c.rules.ignore_eos = *rc::gen::arbitrary<bool>();
  if (*rc::gen::inRange(0, 4) == 0) c.rules.stop_ids = *rc::gen::container<Ids>(id);
  const auto words =
      rc::gen::container<std::vector<Ids>>(rc::gen::nonEmpty(rc::gen::container<Ids>(id)));
  c.rules.stop_sequences = *words;
  c.rules.min_tokens = *rc::gen::inRange(0, 8);
  c.rules.max_tokens = c.rules.min_tokens + *rc::gen::element(0, 1, 5, 1000);
  return c;
}

/// Returns three requests. Faults of the second request must not affect the others.
inline std::vector<StopCase> three_stop_cases() {
  reference::StopRules rules;
  rules.eos_id = 9;
  rules.stop_ids = {5};
  rules.stop_sequences = {{1, 2}};
  rules.max_tokens = 100;
  return {{rules, {4, 1}, {2}}, {rules, {4, 1}, {2}}, {rules, {4}, {5}}};
}

/// A change that makes the second request invalid, and the status that it must get.
using StopBreak = std::pair<RowStatus, std::function<void(StopBatch&)>>;

inline std::vector<StopBreak> all_stop_breaks() {
  return {
      {RowStatus::invalid_history, [](StopBatch& b) { b.step[1] = 1000; }},
      {RowStatus::invalid_history, [](StopBatch& b) { b.step[1] = -2; }},
      {RowStatus::invalid_history, [](StopBatch& b) { b.output.begins()[1] = -1; }},
      {RowStatus::invalid_history, [](StopBatch& b) { b.output.lengths()[1] = -1; }},
      {RowStatus::invalid_history, [](StopBatch& b) { b.output.lengths()[1] = 1 << 30; }},
      {RowStatus::invalid_history,
       [](StopBatch& b) { b.output.begins()[1] = std::numeric_limits<std::int64_t>::max(); }},
      {RowStatus::invalid_stop_criteria, [](StopBatch& b) { b.min_tokens[1] = -1; }},
      {RowStatus::invalid_stop_criteria, [](StopBatch& b) { b.max_tokens[1] = -1; }},
      {RowStatus::invalid_stop_criteria,
       [](StopBatch& b) { b.min_tokens[1] = b.max_tokens[1] + 1; }},
      {RowStatus::invalid_stop_criteria, [](StopBatch& b) { b.eos[1] = 1000; }},
      {RowStatus::invalid_stop_criteria, [](StopBatch& b) { b.eos[1] = -2; }},
      {RowStatus::invalid_stop_criteria,
       [](StopBatch& b) { b.stop_ids.lengths()[1] = 2; }},  // a guard
      {RowStatus::invalid_stop_criteria, [](StopBatch& b) { b.sequences.begins()[1] = 1 << 20; }},
      {RowStatus::invalid_stop_criteria, [](StopBatch& b) { b.sequences.lengths()[1] = 1; }},
      {RowStatus::invalid_stop_criteria,
       [](StopBatch& b) { b.lengths.ids()[static_cast<std::size_t>(b.lengths.begins()[1])] = 0; }},
      {RowStatus::invalid_stop_criteria,
       [](StopBatch& b) { b.lengths.ids()[static_cast<std::size_t>(b.lengths.begins()[1])] = 3; }},
  };
}

}  // namespace fairdraw::suites
