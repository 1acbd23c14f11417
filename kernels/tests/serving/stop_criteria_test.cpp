// Stop criteria are tested with answers by hand, with the independent implementation, and with
// rejected arguments.
#include "fairdraw/stop_criteria.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_stop_criteria.h"
#include "reference/stop_model.h"
#include "tests/serving/stop_batch.h"

namespace fairdraw::suites {
namespace {

using reference::StopAnswer;
using reference::StopRules;

// A fixed seed makes the test deterministic; the variable RC_PARAMS can set other seeds.
const bool kSeedIsFixed = setenv("RC_PARAMS", "seed=20261122 max_success=5000", 0) == 0;

StopFound run_one(const StopCase& c) {
  StopBatch batch(std::vector<StopCase>{c});
  const StopFound outcome = batch.run().front();
  EXPECT_FALSE(batch.error) << batch.error.message;
  return outcome;
}

void expect(const StopCase& c, const StopAnswer& answer) {
  const StopFound outcome = run_one(c);
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
  rules.stop_ids = {9};  // now id 9 is also a stop id
  expect({rules, {1}, {2, 9, 3}}, {FinishReason::stop_id, 2, 0, 1});
}

TEST(StopCriteria, StopIdsGiveTheirPlace) {
  StopRules rules;
  rules.stop_ids = {5, 6, 5};
  expect({rules, {}, {6}}, {FinishReason::stop_id, 1, 1, 1});
  expect({rules, {}, {4, 5}}, {FinishReason::stop_id, 2, 0, 1});
  expect({rules, {5, 6}, {4}}, {FinishReason::none, 1, -1, 0});  // earlier steps checked 5, 6
}

TEST(StopCriteria, SequencesStraddleSteps) {
  StopRules rules;
  rules.stop_sequences = {{1, 2, 3}, {2, 3}, {7}};
  expect({rules, {0, 1}, {2, 3, 4}}, {FinishReason::stop_sequence, 2, 0, 3});
  expect({rules, {0, 0}, {2, 3, 4}}, {FinishReason::stop_sequence, 2, 1, 2});
  expect({rules, {0, 1, 2}, {3}}, {FinishReason::stop_sequence, 1, 0, 3});
  expect({rules, {}, {7, 3}}, {FinishReason::stop_sequence, 1, 2, 1});
  expect({rules, {1}, {3, 2, 1}}, {FinishReason::none, 3, -1, 0});
  rules.stop_sequences = {{1, 1, 2}};  // a match may overlap a partial match that failed
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
  // Output tokens 1 and 2 cannot end the request, but token 3 can.
  expect({rules, {}, {9, 9}}, {FinishReason::none, 2, -1, 0});
  expect({rules, {8, 9}, {9}}, {FinishReason::eos, 1, -1, 1});
  rules.eos_id = -1;
  expect({rules, {8, 9}, {9}}, {FinishReason::none, 1, -1, 0});
  // the sequence began before min_tokens
  expect({rules, {7, 8}, {9}}, {FinishReason::stop_sequence, 1, 0, 2});
  rules.max_tokens = 4;
  expect({rules, {1, 2}, {3, 4, 5}}, {FinishReason::length, 2, -1, 0});
  expect({rules, {1, 2, 3, 4}, {8, 9}}, {FinishReason::length, 0, -1, 0});
}

TEST(StopCriteria, TheTailOfTheOutputSuffices) {
  StopRules rules;
  rules.stop_sequences = {{1, 2, 3}};
  rules.min_tokens = 1000;
  rules.max_tokens = 1002;
  StopBatch batch(std::vector<StopCase>{
      {rules, {1, 2}, {3, 4, 5}}, {rules, {1, 2}, {4, 5, 6}}, {rules, {1, 2}, {3, 4, 5}}});
  const Ids lengths = {999, 999, 998};  // lengths of the whole outputs, of which only a part is
                                        // given
  batch.request.output_lengths = {lengths.data(), 3};
  const std::vector<StopFound> outcomes = batch.run();
  EXPECT_EQ(outcomes[0].answer, (StopAnswer{FinishReason::stop_sequence, 1, 0, 3}));
  EXPECT_EQ(outcomes[0].output_length, 1000);
  EXPECT_EQ(outcomes[1].answer, (StopAnswer{FinishReason::length, 3, -1, 0}));
  EXPECT_EQ(outcomes[1].output_length, 1002);
  EXPECT_EQ(outcomes[2].answer, (StopAnswer{FinishReason::none, 3, -1, 0}));  // 999 < 1000
}

TEST(StopCriteria, APlaceholderNeverMatches) {
  StopRules rules;
  rules.stop_sequences = {{1, 2}};
  expect({rules, {-1}, {2}}, {FinishReason::none, 1, -1, 0});
}

TEST(StopCriteria, InactiveRequestsAreLeftAlone) {
  StopRules rules;
  rules.eos_id = 9;
  StopBatch batch(std::vector<StopCase>{{rules, {1}, {9}}, {rules, {1}, {9}}});
  const std::vector<std::uint8_t> active = {0, 1};
  batch.request.active = {active.data(), 2};
  const std::vector<StopFound> outcomes = batch.run();
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

TEST(StopCriteria, AgreesWithTheModelOnRandomBatches) {
  ASSERT_TRUE(kSeedIsFixed);
  int seen[kFinishReasons] = {};
  EXPECT_TRUE(rc::check("check_stop gives what the model gives", [&seen] {
    std::vector<StopCase> cases;
    const int n = *rc::gen::inRange(1, 6);
    for (int i = 0; i < n; ++i) cases.push_back(random_stop_case());
    StopBatch batch(cases);
    const std::vector<StopFound> outcomes = batch.run();
    RC_ASSERT(!batch.error);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const StopCase& c = cases[i];
      RC_ASSERT(outcomes[i].status == RowStatus::ok);
      const StopAnswer expected = reference::stop_model(c.output, c.step, c.rules);
      RC_ASSERT(outcomes[i].answer == expected);
      ++seen[static_cast<std::size_t>(expected.reason)];
    }
  }));
  for (const int times : seen) EXPECT_GT(times, 0);  // every reason occurs
}

TEST(StopCriteria, HowTokensAreSharedOutToStepsDoesNotMatter) {
  EXPECT_TRUE(rc::check("one step or many, the output ends at the same token", [] {
    StopCase whole = random_stop_case();
    const StopFound at_once = run_one(whole);
    StopCase part = whole;
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
  const std::vector<StopBreak> breaks = all_stop_breaks();
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    StopBatch batch(three_stop_cases());
    breaks[i].second(batch);
    const std::vector<StopFound> outcomes = batch.run();
    EXPECT_FALSE(batch.error) << batch.error.message;
    EXPECT_EQ(outcomes[1].status, breaks[i].first) << i;
    EXPECT_EQ(outcomes[1].answer, (StopAnswer{FinishReason::none, 0, -1, 0})) << i;
    EXPECT_EQ(outcomes[0].answer, (StopAnswer{FinishReason::stop_sequence, 1, 0, 2})) << i;
    EXPECT_EQ(outcomes[2].answer, (StopAnswer{FinishReason::stop_id, 1, 0, 1})) << i;
  }
}

TEST(StopCriteria, AnOutputLongerThanItsLengthIsRefused) {
  StopBatch batch(std::vector<StopCase>{{{}, {4, 1}, {2}}});
  const Ids lengths = {1};
  batch.request.output_lengths = {lengths.data(), 1};
  EXPECT_EQ(batch.run().front().status, RowStatus::invalid_history);
}

void expect_refused(const std::function<void(StopBatch&)>& mutation, const std::string& part) {
  StopBatch batch(std::vector<StopCase>{{{}, {4, 1}, {2}}, {{}, {4, 1}, {2}}});
  mutation(batch);
  const std::vector<StopFound> outcomes = batch.run();
  EXPECT_TRUE(batch.error);
  EXPECT_NE(batch.error.message.find(part), std::string::npos) << batch.error.message;
  for (const StopFound& outcome : outcomes) EXPECT_EQ(outcome.answer.kept, -7);  // nothing written
}

TEST(StopCriteria, ArraysOfTheWrongLengthAreRefused) {
  expect_refused([](StopBatch& b) { b.request.requests = -1; }, "requests is -1");
  expect_refused([](StopBatch& b) { b.request.vocab = kMaxVocab + 1; }, "vocab is 1048577");
  expect_refused([](StopBatch& b) { b.request.tokens_per_step = -1; }, "tokens_per_step is -1");
  expect_refused([](StopBatch& b) { b.request.step_tokens.size = 1; },
                 "length of step_tokens is 1");
  expect_refused([](StopBatch& b) { b.request.step_tokens.data = nullptr; },
                 "step_tokens is null; allowed: an array");
  expect_refused([](StopBatch& b) { b.request.output.begins.size = 1; }, "output.begins");
  expect_refused([](StopBatch& b) { b.request.output.data = nullptr; }, "output.data is null");
  expect_refused([](StopBatch& b) { b.request.criteria.eos_id.values.size = 3; }, "eos_id is 3");
  expect_refused([](StopBatch& b) { b.request.criteria.max_tokens.values.size = 1; },
                 "max_tokens is 1");
  expect_refused([](StopBatch& b) { b.request.criteria.stop_ids.lengths.size = 3; },
                 "stop_ids.lengths");
  expect_refused([](StopBatch& b) { b.request.criteria.stop_sequence_lengths = {}; },
                 "stop_sequences without stop_sequence_lengths");
}

TEST(StopCriteria, ResultsThatAreNeededMustBeThere) {
  StopBatch batch(three_stop_cases());
  std::vector<FinishReason> reasons(3);
  Ids kept(3);
  const StopResult result = {{reasons.data(), 3}, {kept.data(), 3}, {}, {}, {}, {}};
  EXPECT_FALSE(check_stop(batch.request, result));
  EXPECT_EQ(kept, (Ids{1, 1, 1}));
  StopResult without = result;
  without.reasons.data = nullptr;
  EXPECT_NE(check_stop(batch.request, without).message.find("reasons is null"), std::string::npos);
  without = result;
  without.kept = {};
  EXPECT_NE(check_stop(batch.request, without).message.find("kept is null"), std::string::npos);
}

// This test holds in every build: without CUDA kernels or a GPU, the error says so; with a GPU, the
// call rejects host memory.
TEST(StopCriteria, TheGpusCallOnHostMemoryIsRefusedAndWritesNothing) {
  StopBatch batch(three_stop_cases());
  const std::vector<StopFound> found =
      batch.run([](const StopRequest& request, const StopResult& result) {
        return cuda::check_stop(request, result);
      });
  ASSERT_TRUE(batch.error);
  for (const StopFound& request : found) EXPECT_EQ(request.answer.kept, -7);
  if (cuda::is_available()) {
    EXPECT_EQ(batch.error.code, ErrorCode::invalid_argument);
    EXPECT_EQ(batch.error.message.rfind("step_tokens is ", 0), 0U) << batch.error.message;
  } else {
    EXPECT_EQ(batch.error.code, ErrorCode::unsupported);
    EXPECT_NE(batch.error.message.find(cuda::why_not_available()), std::string::npos);
  }
}

}  // namespace
}  // namespace fairdraw::suites
