// A fault of one beam search request must fail that request alone. The tests also cover the
// arguments that a call rejects.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "fairdraw/beam_search.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "tests/serving/beam_batch.h"
#include "tests/serving/beam_problems.h"
#include "tests/serving/beam_result_call.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Runs two requests; `mutation` makes the second one invalid, and must not affect the first.
void expect_status(RowStatus status, const std::function<void(BeamBatch&)>& mutation,
                   const std::vector<float>& second_row = {0, 1, 2}) {
  const BeamRules rules = rules_of(2, 4, {0});
  const auto good = [](const TokenSequence&) { return std::vector<float>{0, 1, 2}; };
  const auto bad = [second_row](const TokenSequence&) { return second_row; };
  BeamBatch alone({{rules, good}}, 3, BeamInput::logits);
  ASSERT_FALSE(alone.step());
  BeamBatch batch({{rules, good}, {rules, bad}}, 3, BeamInput::logits);
  mutation(batch);
  const Error error = batch.step();
  ASSERT_FALSE(error) << error.message;
  EXPECT_EQ(batch.status(1), status) << to_string(batch.status(1));
  EXPECT_TRUE(batch.live(1).empty());
  EXPECT_EQ(batch.status(0), RowStatus::ok);
  EXPECT_EQ(batch.live(0), alone.live(0));
}

TEST(BeamRefusals, WhatIsWrongWithOneRequestFailsItAlone) {
  const auto nothing = [](BeamBatch&) {};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_status(RowStatus::nan_input, nothing, {0, nan, 2});
  expect_status(RowStatus::infinite_input, nothing, {0, kInfinity, 2});
  expect_status(RowStatus::no_allowed_token, nothing, {-kInfinity, -kInfinity, -kInfinity});

  static std::vector<float> floats;
  static std::vector<std::int32_t> ids;
  static std::vector<std::int64_t> begins;
  static TokenListRows lists({});
  const auto with_scores = [&](float value) {
    return [value](BeamBatch& b) {
      floats.assign(4, 0);
      floats[2] = value;
      b.request.scores = {floats.data(), 4};
    };
  };
  expect_status(RowStatus::nan_input, with_scores(nan));
  expect_status(RowStatus::infinite_input, with_scores(kInfinity));
  expect_status(RowStatus::no_allowed_token, with_scores(-kInfinity));
  const auto with_penalty = [&](float value) {
    return [value](BeamBatch& b) {
      floats = {0, value};
      b.request.parameters.length_penalty = {floats.data(), 2};
      b.request.parameters.early_stopping = 2;
    };
  };
  expect_status(RowStatus::invalid_penalty, with_penalty(nan));
  expect_status(RowStatus::invalid_penalty, with_penalty(kInfinity));
  expect_status(RowStatus::invalid_penalty, with_penalty(100));  // 4^100 exceeds float32
  const auto with = [](auto member, std::int32_t value) {
    return [member, value](BeamBatch& b) {
      ids = {member(b).at(0), value};
      member(b) = {ids.data(), 2};
    };
  };
  const auto width = [](BeamBatch& b) -> auto& { return b.request.parameters.width; };
  const auto length = [](BeamBatch& b) -> auto& { return b.request.parameters.max_tokens; };
  const auto stopping = [](BeamBatch& b) -> auto& { return b.request.parameters.early_stopping; };
  expect_status(RowStatus::invalid_beam, with(width, 0));
  expect_status(RowStatus::invalid_beam, with(width, 3));  // max_width is 2
  expect_status(RowStatus::invalid_beam, with(length, 0));
  expect_status(RowStatus::invalid_beam, with(stopping, -1));
  expect_status(RowStatus::invalid_beam, with(stopping, 3));
  for (const std::int32_t live : {-1, 3}) {
    expect_status(RowStatus::index_out_of_range, [live](BeamBatch& b) {
      ids = {1, live};
      b.request.live_beams = {ids.data(), 2};
    });
  }
  for (const std::int64_t begin : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 62}) {
    expect_status(RowStatus::index_out_of_range, [begin](BeamBatch& b) {
      begins = {b.request.row_begins.data[0], begin};
      b.request.row_begins = {begins.data(), 2};
    });
  }
  for (const std::int32_t generated : {-1, 4}) {
    expect_status(RowStatus::invalid_history, [generated](BeamBatch& b) {
      ids = {0, generated};
      b.request.generated = {ids.data(), 2};
    });
  }
  for (const std::int32_t end_id : {-1, 3}) {
    expect_status(RowStatus::invalid_beam, [end_id](BeamBatch& b) {
      lists = TokenListRows({{0}, {end_id}});
      b.request.parameters.end_ids = lists.lists();
    });
  }
}

TEST(BeamRefusals, APoolThatIsTooLargeIsRefused) {
  for (const std::int32_t count : {-1, 3}) {
    BeamBatch batch(one(problem_of(rules_of(2, 3, {2}), row_by_hand)), 3, BeamInput::logprobs);
    batch.result.pool.counts.data[0] = count;
    ASSERT_FALSE(batch.step());
    EXPECT_EQ(batch.status(0), RowStatus::invalid_history);
    EXPECT_EQ(batch.result.pool.counts.data[0], count);
  }
}

void expect_refused(ErrorCode code, const std::string& part,
                    const std::function<void(BeamBatch&)>& mutation) {
  BeamBatch batch(one(problem_of(rules_of(2, 3, {2}), row_by_hand)), 3, BeamInput::logprobs);
  const std::int32_t* tokens = batch.result.tokens.data;
  mutation(batch);
  const Error error = batch.step();
  EXPECT_EQ(error.code, code);
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  EXPECT_EQ(std::vector<std::int32_t>(tokens, tokens + 2), std::vector<std::int32_t>(2, -7));
}

TEST(BeamRefusals, WhatIsRefused) {
  const ErrorCode invalid = ErrorCode::invalid_argument;
  expect_refused(ErrorCode::unsupported, "diversity_rate is 0.5",
                 [](BeamBatch& b) { b.request.parameters.diversity_rate = 0.5F; });
  static const std::vector<float> rates = {std::nanf("")};
  expect_refused(ErrorCode::unsupported, "diversity_rate[0] is nan; allowed: 0",
                 [](BeamBatch& b) { b.request.parameters.diversity_rate = {rates.data(), 1}; });
  expect_refused(invalid, "max_width is 0; allowed: 1 to 1024",
                 [](BeamBatch& b) { b.request.max_width = 0; });
  expect_refused(invalid, "max_width is 1025", [](BeamBatch& b) { b.request.max_width = 1025; });
  expect_refused(invalid, "requests is -1", [](BeamBatch& b) { b.request.requests = -1; });
  expect_refused(invalid, "input is 2", [](BeamBatch& b) { b.request.input = BeamInput{2}; });
  expect_refused(invalid, "rows.vocab is 0", [](BeamBatch& b) { b.request.rows.vocab = 0; });
  expect_refused(invalid, "length of scores is 1", [](BeamBatch& b) { b.request.scores.size = 1; });
  expect_refused(invalid, "length of tokens is 3", [](BeamBatch& b) { b.result.tokens.size = 3; });
  expect_refused(invalid, "states is null; allowed: an array",
                 [](BeamBatch& b) { b.request.states.data = nullptr; });
  expect_refused(invalid, "pool.beams", [](BeamBatch& b) { b.result.pool.beams = {}; });
  expect_refused(invalid, "history.parents", [](BeamBatch& b) { b.result.history.parents = {}; });
  expect_refused(invalid, "end_ids.begins",
                 [](BeamBatch& b) { b.request.parameters.end_ids.begins.size = 2; });
  expect_refused(ErrorCode::invalid_argument, "length of width is 3",
                 [](BeamBatch& b) { b.request.parameters.width.values.size = 3; });
}

TEST(BeamRefusals, AResultOfABrokenHistoryIsRefused) {
  BeamBatch batch(one(problem_of(rules_of(2, 3, {2}), row_by_hand)), 3, BeamInput::logprobs);
  while (!batch.all_done()) ASSERT_FALSE(batch.step());
  ASSERT_EQ(batch.best(0, 2).size(), 2U);
  batch.result.history.parents.data[2] = 2;  // a parent that is no beam, because max_width is 2
  batch.result.history.parents.data[3] = 2;
  EXPECT_THROW(static_cast<void>(batch.best(0, 2)), std::runtime_error);
}

TEST(BeamRefusals, WhatIsWrongWithTheEndOfOneRequestFailsItAlone) {
  const BeamFound good = three_beam_results()->run_on_cpu();
  // The results are one sequence of the pool, and live beams 0 and 1 with 4 tokens: scores -2 / 4
  // and -8 / 4.
  EXPECT_EQ(good.scores, (std::vector<float>{-0.5F, -1, -2, -0.5F, -1, -2, -0.5F, -1, -2}));
  EXPECT_EQ(good.lengths, (std::vector<std::int32_t>{4, 3, 4, 4, 3, 4, 4, 3, 4}));
  for (const auto& [status, mutation] : all_beam_result_breaks()) {
    const auto call = three_beam_results();
    mutation(*call);
    const BeamFound found = call->run_on_cpu();
    ASSERT_FALSE(call->error) << call->error.message;
    BeamFound expected = good;
    expected.statuses[1] = status;
    for (std::size_t place = 3; place < 6; ++place) {
      expected.lengths[place] = 0;
      expected.scores[place] = expected.cumulative[place] = -kInfinity;
      for (std::size_t step = 0; step < 4; ++step) expected.tokens[4 * place + step] = -1;
    }
    EXPECT_TRUE(found == expected) << to_string(status) << ", not " << to_string(found.statuses[1]);
  }
}

TEST(BeamRefusals, AHistoryBeyondEveryMemoryIsRefused) {
  const auto call = three_beam_results();
  constexpr std::int64_t kRequests = std::int64_t{1} << 30;
  BeamResultRequest& asked = call->request;
  asked.requests = kRequests;
  asked.max_width = kMaxBeamWidth;
  asked.pool.counts.size = kRequests;
  for (View<float>* part : {&asked.pool.scores, &asked.pool.cumulative}) {
    part->size = kRequests * kMaxBeamWidth;
  }
  for (View<std::int32_t>* part : {&asked.pool.lengths, &asked.pool.beams, &asked.pool.tokens}) {
    part->size = kRequests * kMaxBeamWidth;
  }
  asked.history.max_steps = std::int32_t{1} << 24;  // 2^64 places, 0 in 64 bits
  asked.history.tokens.size = asked.history.parents.size = 0;
  static_cast<void>(call->run_on_cpu());
  EXPECT_NE(call->error.message.find("history.max_steps is 16777216; allowed: at most 2^48"),
            std::string::npos)
      << call->error.message;
}

// This test holds in every build: without CUDA kernels or a GPU, the errors say so; with a GPU, the
// calls reject host memory.
TEST(BeamRefusals, TheGpusCallsOnHostMemoryAreRefused) {
  const auto expect_no_gpu = [](const Error& error, const char* field) {
    if (cuda::is_available()) {
      EXPECT_EQ(error.code, ErrorCode::invalid_argument);
      EXPECT_EQ(error.message.rfind(field, 0), 0U) << error.message;
    } else {
      EXPECT_EQ(error.code, ErrorCode::unsupported);
      EXPECT_NE(error.message.find(cuda::why_not_available()), std::string::npos) << error.message;
    }
  };
  const auto call = three_beam_results();
  const BeamFound found = call->run([](const BeamResultRequest& asked, const BeamSequences& to) {
    return cuda::beam_search_result(asked, to);
  });
  expect_no_gpu(call->error, "pool.counts is ");
  EXPECT_TRUE(found == call->nothing());
  BeamBatch batch(one(problem_of(rules_of(2, 3, {2}), row_by_hand)), 3, BeamInput::logprobs);
  expect_no_gpu(cuda::beam_search_step(batch.request, batch.result, {}), "rows.data is ");
}

}  // namespace
}  // namespace fairdraw::suites
