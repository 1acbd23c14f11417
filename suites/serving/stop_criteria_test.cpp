// Stop criteria: answers by hand, the second writing of them, and what is refused.
#include "fairdraw/stop_criteria.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "reference/stop_model.h"
#include "suites/serving/token_list_rows.h"

namespace fairdraw::suites {
namespace {

using reference::StopAnswer;
using reference::StopRules;
using Ids = std::vector<std::int32_t>;

// One seed gates; RC_PARAMS searches with others.
const bool kSeedIsFixed = setenv("RC_PARAMS", "seed=20261122 max_success=5000", 0) == 0;

/// One request of a batch.
struct Case {
  StopRules rules;
  Ids output, step;
};

struct Outcome {
  StopAnswer answer;
  std::int32_t output_length = -7;
  RowStatus status = RowStatus::ok;
};

/// A batch with every array of its own; tests may break one of them before `run`.
struct Batch {
  explicit Batch(const std::vector<Case>& cases)
      : n(static_cast<std::int64_t>(cases.size())),
        output(outputs_of(cases)),
        stop_ids(lists_of(cases, [](const Case& c) { return c.rules.stop_ids; })),
        sequences(lists_of(cases, joined)),
        lengths(lists_of(cases, sequence_lengths)) {
    for (const Case& c : cases) width = std::max(width, c.step.size());
    for (const Case& c : cases) {
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

  Batch(const Batch&) = delete;  // views point into it
  Batch& operator=(const Batch&) = delete;

  std::vector<Outcome> run() {
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
    error = check_stop(request, result);
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < size; ++i) {
      outcomes.push_back(
          {{reasons[i], kept[i], matched[i], matched_lengths[i]}, after[i], statuses[i]});
    }
    return outcomes;
  }

  template <class Function>
  static TokenListRows lists_of(const std::vector<Case>& cases, Function function) {
    std::vector<Ids> rows;
    for (const Case& c : cases) rows.push_back(function(c));
    return TokenListRows(rows);
  }
  static TokenListRows outputs_of(const std::vector<Case>& cases) {
    return lists_of(cases, [](const Case& c) { return c.output; });
  }
  static Ids joined(const Case& c) {
    Ids all;
    for (const Ids& s : c.rules.stop_sequences) all.insert(all.end(), s.begin(), s.end());
    return all;
  }
  static Ids sequence_lengths(const Case& c) {
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

Outcome run_one(const Case& c) {
  Batch batch(std::vector<Case>{c});
  const Outcome outcome = batch.run().front();
  EXPECT_FALSE(batch.error) << batch.error.message;
  return outcome;
}

void expect(const Case& c, const StopAnswer& answer) {
  const Outcome outcome = run_one(c);
  EXPECT_EQ(outcome.status, RowStatus::ok);
  EXPECT_EQ(outcome.answer.reason, answer.reason) << to_string(outcome.answer.reason);
  EXPECT_EQ(outcome.answer.kept, answer.kept);
  EXPECT_EQ(outcome.answer.matched, answer.matched);
  EXPECT_EQ(outcome.answer.matched_length, answer.matched_length);
  EXPECT_EQ(outcome.output_length, static_cast<std::int32_t>(c.output.size()) + answer.kept);
  EXPECT_EQ(reference::stop_model(c.output, c.step, c.rules), answer);
}

TEST(StopCriteria, GoesOn) {
  expect({{}, {1, 2}, {3}}, {FinishReason::none, 1, -1, 0});
  expect({{}, {}, {}}, {FinishReason::none, 0, -1, 0});
  expect({{}, {}, {4, 5, 6}}, {FinishReason::none, 3, -1, 0});
}

TEST(StopCriteria, EosEndsInTheMiddleOfAStepUnlessItIsIgnored) {
  StopRules rules;
  rules.eos_id = 9;
  expect({rules, {1}, {2, 9, 3}}, {FinishReason::eos, 2, -1, 1});
  rules.ignore_eos = true;
  expect({rules, {1}, {2, 9, 3}}, {FinishReason::none, 3, -1, 0});
  rules.stop_ids = {9};  // a stop id of its own
  expect({rules, {1}, {2, 9, 3}}, {FinishReason::stop_id, 2, 0, 1});
}

TEST(StopCriteria, StopIdsGiveTheirPlace) {
  StopRules rules;
  rules.stop_ids = {5, 6, 5};
  expect({rules, {}, {6}}, {FinishReason::stop_id, 1, 1, 1});
  expect({rules, {}, {4, 5}}, {FinishReason::stop_id, 2, 0, 1});
  expect({rules, {5, 6}, {4}}, {FinishReason::none, 1, -1, 0});  // of steps before: seen to then
}

TEST(StopCriteria, SequencesStraddleSteps) {
  StopRules rules;
  rules.stop_sequences = {{1, 2, 3}, {2, 3}, {7}};
  expect({rules, {0, 1}, {2, 3, 4}}, {FinishReason::stop_sequence, 2, 0, 3});
  expect({rules, {0, 0}, {2, 3, 4}}, {FinishReason::stop_sequence, 2, 1, 2});
  expect({rules, {0, 1, 2}, {3}}, {FinishReason::stop_sequence, 1, 0, 3});
  expect({rules, {}, {7, 3}}, {FinishReason::stop_sequence, 1, 2, 1});
  expect({rules, {1}, {3, 2, 1}}, {FinishReason::none, 3, -1, 0});
  rules.stop_sequences = {{1, 1, 2}};  // a match may overlap a failed one
  expect({rules, {1, 1}, {1, 2}}, {FinishReason::stop_sequence, 2, 0, 3});
}

TEST(StopCriteria, ASequenceLongerThanTheOutputDoesNotMatch) {
  StopRules rules;
  rules.stop_sequences = {{1, 1, 1}};
  expect({rules, {}, {1, 1}}, {FinishReason::none, 2, -1, 0});
  expect({rules, {1}, {1, 1}}, {FinishReason::stop_sequence, 2, 0, 3});
}

TEST(StopCriteria, OrderAtOneTokenIsEosIdSequenceLength) {
  StopRules rules;
  rules.max_tokens = 1;
  expect({rules, {}, {9}}, {FinishReason::length, 1, -1, 0});
  rules.stop_sequences = {{9}};
  expect({rules, {}, {9}}, {FinishReason::stop_sequence, 1, 0, 1});
  rules.stop_ids = {9};
  expect({rules, {}, {9}}, {FinishReason::stop_id, 1, 0, 1});
  rules.eos_id = 9;
  expect({rules, {}, {9}}, {FinishReason::eos, 1, -1, 1});
}

TEST(StopCriteria, StopsWaitForTheSmallestLengthAndLengthEndsIt) {
  StopRules rules;
  rules.eos_id = 9;
  rules.stop_sequences = {{8, 9}};
  rules.min_tokens = 3;
  // Outputs number 1 and 2 cannot end it; number 3 can.
  expect({rules, {}, {9, 9}}, {FinishReason::none, 2, -1, 0});
  expect({rules, {8, 9}, {9}}, {FinishReason::eos, 1, -1, 1});
  rules.eos_id = -1;
  expect({rules, {8, 9}, {9}}, {FinishReason::none, 1, -1, 0});
  expect({rules, {7, 8}, {9}}, {FinishReason::stop_sequence, 1, 0, 2});  // it began before
  rules.max_tokens = 4;
  expect({rules, {1, 2}, {3, 4, 5}}, {FinishReason::length, 2, -1, 0});
  expect({rules, {1, 2, 3, 4}, {8, 9}}, {FinishReason::length, 0, -1, 0});
}

TEST(StopCriteria, TheTailOfTheOutputSuffices) {
  StopRules rules;
  rules.stop_sequences = {{1, 2, 3}};
  rules.min_tokens = 1000;
  rules.max_tokens = 1002;
  Batch batch(std::vector<Case>{
      {rules, {1, 2}, {3, 4, 5}}, {rules, {1, 2}, {4, 5, 6}}, {rules, {1, 2}, {3, 4, 5}}});
  const Ids lengths = {999, 999, 998};  // the whole outputs'
  batch.request.output_lengths = {lengths.data(), 3};
  const std::vector<Outcome> outcomes = batch.run();
  EXPECT_EQ(outcomes[0].answer, (StopAnswer{FinishReason::stop_sequence, 1, 0, 3}));
  EXPECT_EQ(outcomes[0].output_length, 1000);
  EXPECT_EQ(outcomes[1].answer, (StopAnswer{FinishReason::length, 3, -1, 0}));
  EXPECT_EQ(outcomes[1].output_length, 1002);
  EXPECT_EQ(outcomes[2].answer, (StopAnswer{FinishReason::none, 3, -1, 0}));  // 999: too early
}

TEST(StopCriteria, APlaceholderNeverMatches) {
  StopRules rules;
  rules.stop_sequences = {{1, 2}};
  expect({rules, {-1}, {2}}, {FinishReason::none, 1, -1, 0});
}

TEST(StopCriteria, InactiveRequestsAreLeftAlone) {
  StopRules rules;
  rules.eos_id = 9;
  Batch batch(std::vector<Case>{{rules, {1}, {9}}, {rules, {1}, {9}}});
  const std::vector<std::uint8_t> active = {0, 1};
  batch.request.active = {active.data(), 2};
  const std::vector<Outcome> outcomes = batch.run();
  EXPECT_EQ(outcomes[0].status, RowStatus::inactive);
  EXPECT_EQ(outcomes[0].answer, (StopAnswer{FinishReason::none, 0, -1, 0}));
  EXPECT_EQ(outcomes[1].answer.reason, FinishReason::eos);
}

TEST(StopCriteria, NamesOfReasons) {
  EXPECT_STREQ(to_string(FinishReason::stop_sequence), "stop_sequence");
  EXPECT_EQ(finish_reason_name(FinishReason::none), nullptr);
  EXPECT_STREQ(finish_reason_name(FinishReason::eos), "stop");
  EXPECT_STREQ(finish_reason_name(FinishReason::length), "length");
}

// A small alphabet, so that sequences match, overlap and nearly match often.
Case random_case() {
  const auto id = rc::gen::inRange(0, 3);
  Case c;
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

TEST(StopCriteria, AgreesWithTheModelOnRandomBatches) {
  ASSERT_TRUE(kSeedIsFixed);
  int seen[kFinishReasons] = {};
  EXPECT_TRUE(rc::check("check_stop gives what the model gives", [&seen] {
    std::vector<Case> cases;
    const int n = *rc::gen::inRange(1, 6);
    for (int i = 0; i < n; ++i) cases.push_back(random_case());
    Batch batch(cases);
    const std::vector<Outcome> outcomes = batch.run();
    RC_ASSERT(!batch.error);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      RC_ASSERT(outcomes[i].status == RowStatus::ok);
      const StopAnswer expected = reference::stop_model(c.output, c.step, c.rules);
      RC_ASSERT(outcomes[i].answer == expected);
      ++seen[static_cast<std::size_t>(expected.reason)];
    }
  }));
  for (const int times : seen) EXPECT_GT(times, 0);  // no reason is left out
}

TEST(StopCriteria, HowTokensAreSharedOutToStepsDoesNotMatter) {
  EXPECT_TRUE(rc::check("one step or many, the output ends at the same token", [] {
    Case whole = random_case();
    const Outcome at_once = run_one(whole);
    Case part = whole;
    std::int32_t kept = 0;
    StopAnswer last;
    for (std::size_t at = 0; at < whole.step.size() && last.reason == FinishReason::none;) {
      const auto size = static_cast<std::size_t>(*rc::gen::inRange(1, 4));
      const std::size_t end = std::min(whole.step.size(), at + size);
      part.step.assign(whole.step.begin() + static_cast<std::ptrdiff_t>(at),
                       whole.step.begin() + static_cast<std::ptrdiff_t>(end));
      last = run_one(part).answer;
      part.output.insert(part.output.end(), part.step.begin(), part.step.end());
      kept += last.kept;
      at = end;
    }
    if (whole.step.empty()) return;
    RC_ASSERT(last.reason == at_once.answer.reason);
    RC_ASSERT(last.matched == at_once.answer.matched);
    RC_ASSERT(kept == at_once.answer.kept);
  }));
}

TEST(StopCriteria, WhatIsWrongWithOneRequestFailsItAlone) {
  const auto breaks = std::vector<std::pair<RowStatus, std::function<void(Batch&)>>>{
      {RowStatus::invalid_history, [](Batch& b) { b.step[1] = 1000; }},
      {RowStatus::invalid_history, [](Batch& b) { b.step[1] = -2; }},
      {RowStatus::invalid_history, [](Batch& b) { b.output.begins()[1] = -1; }},
      {RowStatus::invalid_history, [](Batch& b) { b.output.lengths()[1] = -1; }},
      {RowStatus::invalid_history, [](Batch& b) { b.output.lengths()[1] = 1 << 30; }},
      {RowStatus::invalid_history,
       [](Batch& b) { b.output.begins()[1] = std::numeric_limits<std::int64_t>::max(); }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.min_tokens[1] = -1; }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.max_tokens[1] = -1; }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.min_tokens[1] = b.max_tokens[1] + 1; }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.eos[1] = 1000; }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.eos[1] = -2; }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.stop_ids.lengths()[1] = 2; }},  // a guard
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.sequences.begins()[1] = 1 << 20; }},
      {RowStatus::invalid_stop_criteria, [](Batch& b) { b.sequences.lengths()[1] = 1; }},
      {RowStatus::invalid_stop_criteria,
       [](Batch& b) { b.lengths.ids()[static_cast<std::size_t>(b.lengths.begins()[1])] = 0; }},
      {RowStatus::invalid_stop_criteria,
       [](Batch& b) { b.lengths.ids()[static_cast<std::size_t>(b.lengths.begins()[1])] = 3; }},
  };
  StopRules rules;
  rules.eos_id = 9;
  rules.stop_ids = {5};
  rules.stop_sequences = {{1, 2}};
  rules.max_tokens = 100;
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    Batch batch(std::vector<Case>{{rules, {4, 1}, {2}}, {rules, {4, 1}, {2}}, {rules, {4}, {5}}});
    breaks[i].second(batch);
    const std::vector<Outcome> outcomes = batch.run();
    EXPECT_FALSE(batch.error) << batch.error.message;
    EXPECT_EQ(outcomes[1].status, breaks[i].first) << i;
    EXPECT_EQ(outcomes[1].answer, (StopAnswer{FinishReason::none, 0, -1, 0})) << i;
    EXPECT_EQ(outcomes[0].answer, (StopAnswer{FinishReason::stop_sequence, 1, 0, 2})) << i;
    EXPECT_EQ(outcomes[2].answer, (StopAnswer{FinishReason::stop_id, 1, 0, 1})) << i;
  }
}

TEST(StopCriteria, AnOutputLongerThanItsLengthIsRefused) {
  Batch batch(std::vector<Case>{{{}, {4, 1}, {2}}});
  const Ids lengths = {1};
  batch.request.output_lengths = {lengths.data(), 1};
  EXPECT_EQ(batch.run().front().status, RowStatus::invalid_history);
}

void expect_refused(const std::function<void(Batch&)>& spoil, const std::string& part) {
  Batch batch(std::vector<Case>{{{}, {4, 1}, {2}}, {{}, {4, 1}, {2}}});
  spoil(batch);
  const std::vector<Outcome> outcomes = batch.run();
  EXPECT_TRUE(batch.error);
  EXPECT_NE(batch.error.message.find(part), std::string::npos) << batch.error.message;
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.answer.kept, -7);  // nothing written
}

TEST(StopCriteria, ArraysOfTheWrongLengthAreRefused) {
  expect_refused([](Batch& b) { b.request.requests = -1; }, "requests is -1");
  expect_refused([](Batch& b) { b.request.vocab = kMaxVocab + 1; }, "vocab is 1048577");
  expect_refused([](Batch& b) { b.request.tokens_per_step = -1; }, "tokens_per_step is -1");
  expect_refused([](Batch& b) { b.request.step_tokens.size = 1; }, "length of step_tokens is 1");
  expect_refused([](Batch& b) { b.request.output.begins.size = 1; }, "output.begins");
  expect_refused([](Batch& b) { b.request.output.data = nullptr; }, "output.data is null");
  expect_refused([](Batch& b) { b.request.criteria.eos_id.values.size = 3; }, "eos_id is 3");
  expect_refused([](Batch& b) { b.request.criteria.max_tokens.values.size = 1; },
                 "max_tokens is 1");
  expect_refused([](Batch& b) { b.request.criteria.stop_ids.lengths.size = 3; },
                 "stop_ids.lengths");
  expect_refused([](Batch& b) { b.request.criteria.stop_sequence_lengths = {}; },
                 "stop_sequences without stop_sequence_lengths");
}

}  // namespace
}  // namespace fairdraw::suites
