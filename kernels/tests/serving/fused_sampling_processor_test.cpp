// FusedSamplingProcessor is tested call by call. state_machine_test.cpp tests sequences of calls.
#include "fairdraw/fused_sampling_processor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/serving/random_requests.h"

namespace fairdraw::suites::batches {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kVocab = 33;
using Tokens = std::vector<std::int32_t>;

/// A state with its processor and with logits.
class Serving : public testing::Test {
 protected:
  Serving() { start({kVocab, 4, 64}); }

  void start(const BatchStateOptions& options) {
    expect_ok(BatchState::make(options, state_));
    processor_ = std::make_unique<FusedSamplingProcessor>(*state_);
  }

  static void expect_ok(const Error& error) { ASSERT_FALSE(error) << error.message; }
  static void expect_refused(const Error& error, const std::string& message) {
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_EQ(error.message, message);
  }

  /// Returns rows of logits; the same number always gives the same rows.
  static std::vector<float> logits(std::uint64_t number, std::int64_t rows) {
    harness::Dice dice{number};
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * kVocab; ++i) {
      values.push_back(static_cast<float>(dice.bell()));
    }
    return values;
  }
  static RowsView view(const std::vector<float>& values) {
    return {values.data(), DType::float32, static_cast<std::int64_t>(values.size()) / kVocab,
            kVocab, kVocab};
  }
  static BatchRequest seeded(std::uint64_t seed) {
    BatchRequest request;
    request.seed = seed;
    request.frequency_penalty = 0.5F;
    return request;
  }

  static Tokens list(View<const std::int32_t> of) { return {of.data, of.data + of.size}; }
  static std::vector<RowStatus> list(View<const RowStatus> of) {
    return {of.data, of.data + of.size};
  }
  Tokens output_of(RequestId id) const { return list(state_->output(state_->slot_of(id))); }

  std::unique_ptr<BatchState> state_;
  std::unique_ptr<FusedSamplingProcessor> processor_;
};

TEST_F(Serving, StepsAppendWhatTheyDraw) {
  expect_ok(state_->add(1, seeded(10), 1));
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> rows = logits(step, 2);
    expect_ok((*processor_)(view(rows)));
    EXPECT_EQ(list(processor_->statuses()),
              (std::vector<RowStatus>{RowStatus::inactive, RowStatus::ok}));
    EXPECT_EQ(list(processor_->new_token_counts()), (Tokens{0, 1}));
    const Tokens drawn = list(processor_->new_tokens());
    EXPECT_EQ(drawn.front(), -1);
    EXPECT_EQ(drawn.back(), output_of(1).back());
    EXPECT_EQ(state_->offset(1), step + 1);
  }
  const TokenLists generated = processor_->generated_tokens();
  ASSERT_EQ(generated.lengths.size, 2);
  EXPECT_EQ(generated.lengths.data[0], 0);
  EXPECT_EQ(generated.lengths.data[1], 3);
}

/// Runs six steps of request 1 together with other requests, with `events` between the steps. The
/// logits of request 1 are always the same, and those of its neighbours differ.
Tokens story(const std::vector<std::string>& events) {
  BatchStateOptions options;
  options.vocab = kVocab;
  options.capacity = 4;
  options.max_length = 64;
  std::unique_ptr<BatchState> state;
  EXPECT_FALSE(BatchState::make(options, state));
  FusedSamplingProcessor processor(*state);
  BatchRequest request;
  request.seed = 10;
  request.repetition_penalty = 1.2F;
  request.presence_penalty = 0.3F;
  request.bad_words = {{3, 4}, {5}};
  EXPECT_FALSE(state->add(1, request));
  for (std::size_t step = 0; step < 6; ++step) {
    const std::string event = step < events.size() ? events[step] : "";
    if (event == "neighbour") {
      EXPECT_FALSE(state->add(100 + step, {}));
    }
    if (event == "swap") {
      EXPECT_FALSE(state->swap(state->slot_of(1), 3));
    }
    if (event == "compact") state->compact();
    if (event == "preempt") {
      RequestSnapshot snapshot;
      EXPECT_FALSE(state->evict(1, snapshot));
      EXPECT_FALSE(state->add(200 + step, {}));  // takes its slot
      EXPECT_FALSE(state->restore(snapshot));
    }
    const std::int32_t slots = state->slots();
    std::vector<float> rows;
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      const bool ours = state->id_at(slot) == 1;
      harness::Dice dice{ours ? step : 1000 * step + static_cast<std::uint64_t>(slot)};
      for (std::int64_t t = 0; t < kVocab; ++t) rows.push_back(static_cast<float>(dice.bell()));
    }
    EXPECT_FALSE(processor.step({rows.data(), DType::float32, slots, kVocab, kVocab}));
  }
  const View<const std::int32_t> output = state->output(state->slot_of(1));
  return {output.data, output.data + output.size};
}

TEST(FusedSamplingProcessor, ARequestsTokensDoNotDependOnWhereItIs) {
  const Tokens undisturbed = story({});
  ASSERT_EQ(undisturbed.size(), 6U);
  const std::vector<std::vector<std::string>> stories = {
      {"neighbour", "neighbour"}, {"swap"},
      {"", "swap", "compact"},    {"", "preempt"},
      {"preempt", "", "preempt"}, {"neighbour", "swap", "", "preempt", "compact"},
  };
  for (const auto& events : stories) EXPECT_EQ(story(events), undisturbed);
}

TEST_F(Serving, OffsetsChooseTheLastRowOfEachRequest) {
  for (RequestId id = 0; id < 3; ++id) expect_ok(state_->add(id, seeded(id)));
  const std::vector<float> rows = logits(5, 7);
  // Request 0 has rows 0 to 3, request 1 has none, and request 2 has rows 4 and 5; row 6 belongs to
  // no request.
  const std::vector<std::int64_t> offsets = {0, 4, 4, 6};
  expect_ok(processor_->step(view(rows), View<const std::int64_t>{offsets.data(), 4}));
  EXPECT_EQ(list(processor_->new_token_counts()), (Tokens{1, 0, 1}));
  EXPECT_EQ(list(processor_->statuses()),
            (std::vector<RowStatus>{RowStatus::ok, RowStatus::inactive, RowStatus::ok}));
  EXPECT_EQ(state_->offset(1), 0U);
  const Tokens drawn = list(processor_->new_tokens());

  // The second state gets the same rows, gathered.
  BatchStateOptions options = state_->options();
  start(options);
  for (RequestId id = 0; id < 3; ++id) expect_ok(state_->add(id, seeded(id)));
  std::vector<float> gathered(rows.begin() + 3 * kVocab, rows.begin() + 4 * kVocab);
  gathered.insert(gathered.end(), static_cast<std::size_t>(kVocab), 0.0F);
  gathered.insert(gathered.end(), rows.begin() + 5 * kVocab, rows.begin() + 6 * kVocab);
  expect_ok(processor_->step(view(gathered)));
  const Tokens together = list(processor_->new_tokens());
  EXPECT_EQ(together[0], drawn[0]);
  EXPECT_EQ(together[2], drawn[2]);
}

TEST_F(Serving, AllRowsAreAsManySteps) {
  expect_ok(state_->add(1, seeded(1)));
  expect_ok(state_->add(2, seeded(2)));
  const std::vector<float> rows = logits(9, 5);
  const std::vector<std::uint32_t> offsets = {0, 3, 5};
  expect_ok(
      processor_->step(view(rows), View<const std::uint32_t>{offsets.data(), 3}, StepRows::all));
  EXPECT_EQ(list(processor_->new_token_counts()), (Tokens{3, 2}));
  const Tokens first = output_of(1);
  const Tokens second = output_of(2);

  start(state_->options());
  expect_ok(state_->add(1, seeded(1)));
  expect_ok(state_->add(2, seeded(2)));
  const std::int64_t rows_of_steps[3][2] = {{0, 3}, {1, 4}, {2, -1}};
  for (const auto& step : rows_of_steps) {
    std::vector<float> one_a_request;
    std::vector<std::int64_t> taken = {0};
    for (const std::int64_t row : step) {
      if (row >= 0) {
        one_a_request.insert(one_a_request.end(), rows.begin() + row * kVocab,
                             rows.begin() + (row + 1) * kVocab);
      }
      taken.push_back(taken.back() + (row >= 0 ? 1 : 0));
    }
    expect_ok(processor_->step(view(one_a_request), View<const std::int64_t>{taken.data(), 3}));
  }
  EXPECT_EQ(output_of(1), first);
  EXPECT_EQ(output_of(2), second);
}

TEST_F(Serving, ARowThatFailsStopsItsRequestAndNoOther) {
  for (RequestId id = 0; id < 3; ++id) expect_ok(state_->add(id, seeded(id)));
  std::vector<float> rows = logits(5, 6);
  rows[static_cast<std::size_t>(3 * kVocab)] = NAN;  // a NaN in the second row of request 1
  const std::vector<std::int64_t> offsets = {0, 2, 5, 6};
  expect_ok(
      processor_->step(view(rows), View<const std::int64_t>{offsets.data(), 4}, StepRows::all));
  EXPECT_EQ(list(processor_->statuses()),
            (std::vector<RowStatus>{RowStatus::ok, RowStatus::nan_input, RowStatus::ok}));
  EXPECT_EQ(list(processor_->new_token_counts()), (Tokens{2, 1, 1}));
  EXPECT_EQ(state_->offset(1), 1U);  // the third row of request 1 was not sampled
}

TEST_F(Serving, AFullHistoryFailsItsRequestAlone) {
  start({kVocab, 2, 2});
  BatchRequest full;
  full.prompt = {1, 2};
  expect_ok(state_->add(1, full));
  expect_ok(state_->add(2, seeded(2)));
  const std::vector<float> rows = logits(5, 2);
  expect_ok(processor_->step(view(rows)));
  EXPECT_EQ(list(processor_->statuses()),
            (std::vector<RowStatus>{RowStatus::invalid_history, RowStatus::ok}));
  EXPECT_EQ(list(processor_->new_tokens()).front(), -1);
}

TEST_F(Serving, ABitmaskHoldsUntilItIsUpdatedAndGoesWithItsRequest) {
  expect_ok(state_->add(1, seeded(1)));
  expect_ok(state_->add(2, seeded(2)));
  const std::vector<std::uint32_t> only_7_or_32 = {1U << 7, 0, 0, 1};  // ids 0 to 31, then 32
  expect_ok(processor_->update_bitmask({only_7_or_32.data(), 2, 2}));
  const std::vector<float> rows = logits(1, 2);
  expect_ok(processor_->step(view(rows)));
  EXPECT_EQ(list(processor_->new_tokens()), (Tokens{7, 32}));
  expect_ok(state_->swap(0, 1));
  expect_ok(processor_->step(view(rows)));
  EXPECT_EQ(list(processor_->new_tokens()), (Tokens{32, 7}));
  RequestSnapshot snapshot;
  expect_ok(state_->evict(1, snapshot));
  expect_ok(state_->restore(snapshot, 3));
  const std::vector<float> four = logits(1, 4);
  expect_ok(processor_->step(view(four)));
  EXPECT_EQ(list(processor_->new_tokens()), (Tokens{32, -1, -1, 7}));

  const std::vector<std::uint32_t> none(8);
  expect_ok(processor_->update_bitmask({none.data(), 4, 2}));
  expect_ok(processor_->step(view(four)));
  EXPECT_EQ(list(processor_->statuses()),
            (std::vector<RowStatus>{RowStatus::no_allowed_token, RowStatus::inactive,
                                    RowStatus::inactive, RowStatus::no_allowed_token}));
  processor_->clear_bitmask();
  expect_ok(processor_->step(view(four)));
  EXPECT_EQ(list(processor_->new_token_counts()), (Tokens{1, 0, 0, 1}));
}

TEST_F(Serving, ACopyKeepsTheTokensOfItsStep) {
  EXPECT_FALSE(processor_->wait_for_tokens().given());
  expect_refused(processor_->start_async_token_copy(),
                 "number of steps is 0; allowed: >= 1 before tokens are copied");
  expect_ok(state_->add(1, seeded(1)));
  const std::vector<float> rows = logits(1, 1);
  expect_ok(processor_->step(view(rows)));
  const Tokens first = list(processor_->new_tokens());
  expect_ok(processor_->start_async_token_copy());
  std::vector<float> other(static_cast<std::size_t>(kVocab), 0.0F);
  other[static_cast<std::size_t>(first[0] + 1) % other.size()] = 1000.0F;  // another token
  expect_ok(processor_->step(view(other)));
  EXPECT_NE(list(processor_->new_tokens()), first);
  EXPECT_EQ(list(processor_->wait_for_tokens()), first);
}

TEST_F(Serving, RefusedStepsChangeNothing) {
  expect_ok(state_->add(1, seeded(1), 1));
  const std::vector<float> rows = logits(1, 3);
  expect_ok(processor_->step(view(rows)));
  const Tokens before = list(processor_->new_tokens());

  const auto refused = [&](const Error& error, const std::string& message) {
    expect_refused(error, message);
    EXPECT_EQ(list(processor_->new_tokens()), before);
    EXPECT_EQ(state_->offset(1), 1U);
  };
  RowsView wrong = view(rows);
  wrong.vocab = 32;
  refused(processor_->step(wrong),
          "length of a row of logits is 32; allowed: 33 (vocab of the batch state)");
  wrong = view(rows);
  wrong.rows = 1;
  refused(processor_->step(wrong), "logits.rows is 1; allowed: 2 (slots in use) to 4 (capacity)");
  wrong.rows = 5;
  refused(processor_->step(wrong), "logits.rows is 5; allowed: 2 (slots in use) to 4 (capacity)");
  struct Row {
    std::vector<std::int64_t> offsets;
    const char* message;
  };
  const Row offsets[] = {
      {{0, 1}, "length of logit_offsets - 1 is 1; allowed: 2 (slots in use) to 4 (capacity)"},
      {{1, 1, 2}, "logit_offsets[0] is 1; allowed: 0 to 0"},
      {{0, 2, 1}, "logit_offsets[2] is 1; allowed: 2 to 3"},
      {{0, 1, 4}, "logit_offsets[2] is 4; allowed: 1 to 3"},
      {{0, -1, 3}, "logit_offsets[1] is -1; allowed: 0 to 3"},
  };
  for (const Row& row : offsets) {
    refused(processor_->step(view(rows),
                             View<const std::int64_t>{row.offsets.data(), static_cast<std::int64_t>(
                                                                              row.offsets.size())}),
            row.message);
  }
  refused(processor_->step(view(rows), View<const std::int64_t>{}, static_cast<StepRows>(2)),
          "rows is 2; allowed: 0 (last) or 1 (all)");
  Execution negative;
  negative.threads = -1;
  FusedSamplingProcessor other(*state_, negative);
  refused(other.step(view(rows)), "threads is -1; allowed: 0 to 1024 (0: as OpenMP takes)");
}

TEST_F(Serving, RulesOfTheStateAreThoseOfItsSteps) {
  const std::vector<float> row(static_cast<std::size_t>(kVocab), 1.0F);  // all tied
  BatchRequest two = seeded(1);
  two.frequency_penalty = 0;
  two.top_k = 2;
  for (const TieRule rule : {TieRule::keep_all, TieRule::lowest_id}) {
    BatchStateOptions options = {kVocab, 1, 64};
    options.tie_rule = rule;
    start(options);
    expect_ok(state_->add(1, two));
    for (int step = 0; step < 64; ++step) expect_ok(processor_->step(view(row)));
    const Tokens drawn = output_of(1);
    // keep_all: 64 draws among 33 ids would all lie in {0, 1} with a probability of (2 / 33)^64 <
    // 1e-77.
    const bool low = std::all_of(drawn.begin(), drawn.end(), [](auto token) { return token < 2; });
    EXPECT_EQ(low, rule == TieRule::lowest_id);
  }

  // top_k keeps two of the probabilities 0.4, 0.3 and 0.3. Half of the kept mass is less than token
  // 0's share of it, 0.4 / 0.7; half of the whole mass is more than token 0's 0.4.
  std::vector<float> three(static_cast<std::size_t>(kVocab), -kInfinity);
  for (const std::size_t token : {0U, 1U, 2U}) three[token] = std::log(token == 0 ? 0.4F : 0.3F);
  BatchRequest half = two;
  half.top_p = 0.5F;
  for (const FilterOrder order : {FilterOrder::top_k_first, FilterOrder::joint}) {
    BatchStateOptions options = {kVocab, 1, 64};
    options.tie_rule = TieRule::lowest_id;
    options.filter_order = order;
    start(options);
    expect_ok(state_->add(1, half));
    for (int step = 0; step < 64; ++step) expect_ok(processor_->step(view(three)));
    const Tokens drawn = output_of(1);
    // joint: 64 draws would all give token 0 with a probability of (4 / 7)^64 < 1e-15.
    const bool one = std::all_of(drawn.begin(), drawn.end(), [](auto token) { return token == 0; });
    EXPECT_EQ(one, order == FilterOrder::top_k_first);
  }
}

TEST_F(Serving, AnEmptyBatchIsAStepToo) {
  expect_ok(processor_->step({nullptr, DType::float32, 0, kVocab, kVocab}));
  EXPECT_EQ(processor_->new_tokens().size, 0);
}

// Two default requests draw from equal logits. If all 64 tokens of 33 ids were equal, the requests
// would have a common seed (by chance, the probability is 33^-64 < 1e-97).
TEST_F(Serving, DefaultRequestsDrawOtherTokens) {
  expect_ok(state_->add(1, {}));
  expect_ok(state_->add(2, {}));
  const std::vector<float> equal(2 * kVocab, 0.0F);
  for (int step = 0; step < 64; ++step) expect_ok(processor_->step(view(equal)));
  EXPECT_NE(output_of(1), output_of(2));
}

}  // namespace
}  // namespace fairdraw::suites::batches
