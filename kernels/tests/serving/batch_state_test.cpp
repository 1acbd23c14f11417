// BatchState is tested call by call: rejected arguments and their messages, the slots of requests,
// and the contents of snapshots. state_machine_test.cpp tests sequences of calls.
#include "fairdraw/batch_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace fairdraw::suites::batches {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

BatchStateOptions options() {
  BatchStateOptions made;
  made.vocab = 100;
  made.capacity = 3;
  made.max_length = 8;
  made.max_bias = 2;
  made.max_stop_ids = 2;
  made.max_bad_words = 2;
  made.max_bad_word_tokens = 3;
  made.max_allowed_ids = 2;
  return made;
}

std::unique_ptr<BatchState> state_of(const BatchStateOptions& chosen = options()) {
  std::unique_ptr<BatchState> state;
  const Error error = BatchState::make(chosen, state);
  EXPECT_FALSE(error) << error.message;
  return state;
}

BatchRequest with_prompt(std::vector<std::int32_t> prompt) {
  BatchRequest request;
  request.prompt = std::move(prompt);
  return request;
}

void expect_ok(const Error& error) { EXPECT_FALSE(error) << error.message; }

void expect_refused(const Error& error, const std::string& message) {
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_EQ(error.message, message);
}

std::vector<std::int32_t> list(View<const std::int32_t> view) {
  return {view.data, view.data + view.size};
}

TEST(BatchState, RefusesOptionsOutOfTheirRanges) {
  struct Row {
    std::function<void(BatchStateOptions&)> mutation;
    const char* message;
  };
  const Row rows[] = {
      {[](auto& o) { o.vocab = 0; }, "vocab is 0; allowed: 1 to 1048576"},
      {[](auto& o) { o.vocab = kMaxVocab + 1; }, "vocab is 1048577; allowed: 1 to 1048576"},
      {[](auto& o) { o.capacity = 0; }, "capacity is 0; allowed: >= 1"},
      {[](auto& o) { o.max_length = 0; }, "max_length is 0; allowed: >= 1"},
      {[](auto& o) { o.max_bias = -1; }, "max_bias is -1; allowed: >= 0"},
      {[](auto& o) { o.max_stop_ids = -1; }, "max_stop_ids is -1; allowed: >= 0"},
      {[](auto& o) { o.max_bad_words = -1; }, "max_bad_words is -1; allowed: >= 0"},
      {[](auto& o) { o.max_bad_word_tokens = -1; }, "max_bad_word_tokens is -1; allowed: >= 0"},
      {[](auto& o) { o.max_allowed_ids = -1; }, "max_allowed_ids is -1; allowed: >= 0"},
      {[](auto& o) { o.history = static_cast<HistoryForm>(2); },
       "history is 2; allowed: 0 (lists) or 1 (dense)"},
      {[](auto& o) { o.tie_rule = static_cast<TieRule>(2); },
       "tie_rule is 2; allowed: 0 (keep_all) or 1 (lowest_id)"},
      {[](auto& o) { o.filter_order = static_cast<FilterOrder>(2); },
       "filter_order is 2; allowed: 0 (top_k_first) or 1 (joint)"},
  };
  for (const Row& row : rows) {
    BatchStateOptions mutated = options();
    row.mutation(mutated);
    std::unique_ptr<BatchState> state;
    expect_refused(BatchState::make(mutated, state), row.message);
    EXPECT_EQ(state, nullptr);
  }
}

TEST(BatchState, RefusesSizesThatNoMachineHas) {
  const auto largest = std::numeric_limits<std::int32_t>::max();
  BatchStateOptions long_histories = options();
  long_histories.capacity = largest;
  long_histories.max_length = largest;
  BatchStateOptions counts = options();
  counts.vocab = kMaxVocab;
  counts.capacity = 1 << 18;  // 2^18 * 2^20 counts of 4 bytes
  counts.history = HistoryForm::dense;
  for (const BatchStateOptions& huge : {long_histories, counts}) {
    std::unique_ptr<BatchState> state;
    expect_refused(BatchState::make(huge, state),
                   "memory of the batch state is more than 2^40 bytes; allowed: 0 to 2^40 bytes; "
                   "capacity, max_length, vocab of dense histories and the other sizes decide");
    EXPECT_EQ(state, nullptr);
  }
}

TEST(BatchState, RefusesParametersOutOfTheirRanges) {
  struct Row {
    std::function<void(BatchRequest&)> mutation;
    const char* message;
  };
  const Row rows[] = {
      {[](auto& r) { r.temperature = -1; }, "temperature is -1; allowed: 0, or 2^-126 to 2^64"},
      {[](auto& r) { r.temperature = NAN; }, "temperature is nan; allowed: 0, or 2^-126 to 2^64"},
      {[](auto& r) { r.top_k = -2; }, "top_k is -2; allowed: >= -1"},
      {[](auto& r) { r.top_p = 1.5F; }, "top_p is 1.5; allowed: 0 to 1"},
      {[](auto& r) { r.min_p = -0.5F; }, "min_p is -0.5; allowed: 0 to 1"},
      {[](auto& r) { r.repetition_penalty = 0; },
       "repetition_penalty is 0; allowed: 2^-64 to 2^64"},
      {[](auto& r) { r.frequency_penalty = kInfinity; },
       "frequency_penalty is inf; allowed: -2^64 to 2^64"},
      {[](auto& r) { r.presence_penalty = NAN; },
       "presence_penalty is nan; allowed: -2^64 to 2^64"},
      {[](auto& r) { r.min_tokens = -1; }, "min_tokens is -1; allowed: >= 0"},
      {[](auto& r) { r.top_n_sigma = -2; }, "top_n_sigma is -2; allowed: >= 0, or -1"},
      {[](auto& r) { r.typical_p = 1.5F; }, "typical_p is 1.5; allowed: 0 to 1"},
      {[](auto& r) { r.epsilon_cutoff = NAN; }, "epsilon_cutoff is nan; allowed: 0 to 1"},
      {[](auto& r) { r.eta_cutoff = -0.5F; }, "eta_cutoff is -0.5; allowed: 0 to 1"},
      {[](auto& r) { r.p_less = 2; }, "p_less is 2; allowed: 0 to 1"},
      {[](auto& r) { r.top_h = -0.5F; }, "top_h is -0.5; allowed: 0 to 1"},
      {[](auto& r) { r.xtc_probability = NAN; }, "xtc_probability is nan; allowed: 0 to 1"},
      {[](auto& r) { r.xtc_threshold = 1.5F; }, "xtc_threshold is 1.5; allowed: 0 to 1"},
      {[](auto& r) { r.filter_chain = 0x21c; },
       "filter_chain is 540; allowed: 0, or steps from 1 to 12 in groups of 4 bits, "
       "the first one lowest, and 12 (adaptive_p) only as the last"},
      {[](auto& r) { r.filter_chain = 0xd; },
       "filter_chain is 13; allowed: 0, or steps from 1 to 12 in groups of 4 bits, "
       "the first one lowest, and 12 (adaptive_p) only as the last"},
      {[](auto& r) { r.adaptive_target = 1.5F; }, "adaptive_target is 1.5; allowed: -1 to 1"},
      {[](auto& r) { r.chain_temperature = 0; }, "chain_temperature is 0; allowed: 2^-126 to 2^64"},
      {[](auto& r) { r.chain_top_k = -2; }, "chain_top_k is -2; allowed: >= -1"},
      {[](auto& r) { r.chain_top_p = 1.5F; }, "chain_top_p is 1.5; allowed: 0 to 1"},
      {[](auto& r) { r.chain_min_p = NAN; }, "chain_min_p is nan; allowed: 0 to 1"},
      {[](auto& r) { r.dynatemp_range = -1; }, "dynatemp_range is -1; allowed: 0 to 2^64"},
      {[](auto& r) { r.dynatemp_exponent = NAN; }, "dynatemp_exponent is nan; allowed: 0 to 2^64"},
      {[](auto& r) { r.dry_multiplier = -1; }, "dry_multiplier is -1; allowed: 0 to 2^64"},
      {[](auto& r) { r.dry_base = 0.5F; }, "dry_base is 0.5; allowed: 1 to 2^64"},
      {[](auto& r) { r.dry_allowed_length = 0; }, "dry_allowed_length is 0; allowed: >= 1"},
      {[](auto& r) { r.dry_window = -2; }, "dry_window is -2; allowed: >= -1"},
      {[](auto& r) { r.forced_after = -2; }, "forced_after is -2; allowed: -1 to 99"},
      {[](auto& r) { r.forced_after = 100; }, "forced_after is 100; allowed: -1 to 99"},
      {[](auto& r) { r.forced_delay = -1; }, "forced_delay is -1; allowed: >= 0"},
      {[](auto& r) { r.forced_tokens = {100}; }, "forced_tokens[0] is 100; allowed: 0 to 99"},
      {[](auto& r) { r.dry_breakers = {-1}; }, "dry_breakers[0] is -1; allowed: 0 to 99"},
      {[](auto& r) { r.top_p_decay = 0; }, "top_p_decay is 0; allowed: above 0, up to 1"},
      {[](auto& r) { r.top_p_decay = NAN; }, "top_p_decay is nan; allowed: above 0, up to 1"},
      {[](auto& r) { r.top_p_min = 1.5F; }, "top_p_min is 1.5; allowed: above 0, up to 1"},
      {[](auto& r) { r.top_p_reset_id = 100; }, "top_p_reset_id is 100; allowed: -1 to 99"},
      {[](auto& r) { r.penalty_window = -2; }, "penalty_window is -2; allowed: >= -1"},
      {[](auto& r) { r.counts_of_prompt = 2; }, "counts_of_prompt is 2; allowed: 0 or 1"},
      {[](auto& r) { r.no_repeat_ngram_size = -1; }, "no_repeat_ngram_size is -1; allowed: >= 0"},
      {[](auto& r) {
         r.no_repeat_ngram_size = 2;
         r.repetition_of_prompt = false;
       },
       "repetition_of_prompt is false; allowed: true, or 0 for no_repeat_ngram_size, which reads "
       "the prompt"},
      {[](auto& r) { r.stop_ids = {0, 100}; }, "stop_ids[1] is 100; allowed: 0 to 99"},
      {[](auto& r) { r.stop_ids = {0, 1, 2}; },
       "length of stop_ids is 3; allowed: 0 to 2 (max_stop_ids)"},
      {[](auto& r) { r.bias = {{-1, 1}}; }, "bias[0].token is -1; allowed: 0 to 99"},
      {[](auto& r) { r.bias = {{1, 1}, {2, NAN}}; },
       "bias[1].bias is nan; allowed: -inf, or -2^64 to 2^64"},
      {[](auto& r) { r.bias = {{1, kInfinity}}; },
       "bias[0].bias is inf; allowed: -inf, or -2^64 to 2^64"},
      {[](auto& r) { r.bias.resize(3); }, "length of bias is 3; allowed: 0 to 2 (max_bias)"},
      {[](auto& r) { r.bad_words = {{1}, {}}; }, "length of bad_words[1] is 0; allowed: >= 1"},
      {[](auto& r) { r.bad_words = {{1, 100}}; }, "bad_words[0][1] is 100; allowed: 0 to 99"},
      {[](auto& r) { r.bad_words = {{1}, {2}, {3}}; },
       "length of bad_words is 3; allowed: 0 to 2 (max_bad_words)"},
      {[](auto& r) { r.bad_words = {{1, 2}, {3, 4}}; },
       "length of all bad_words together is 4; allowed: 0 to 3 (max_bad_word_tokens)"},
      {[](auto& r) { r.allowed_ids = {-5}; }, "allowed_ids[0] is -5; allowed: 0 to 99"},
      {[](auto& r) { r.prompt = {1, -2}; }, "prompt[1] is -2; allowed: -1 to 99"},
      {[](auto& r) { r.prompt.resize(9); }, "length of prompt is 9; allowed: 0 to 8 (max_length)"},
  };
  const auto state = state_of();
  for (const Row& row : rows) {
    BatchRequest request;
    row.mutation(request);
    expect_refused(state->add(1, request), row.message);
    EXPECT_EQ(state->size(), 0);
  }
}

TEST(BatchState, RefusesRulesOfHistoriesThatDenseHistoriesCannotFollow) {
  BatchStateOptions chosen = options();
  chosen.history = HistoryForm::dense;
  std::unique_ptr<BatchState> state;
  ASSERT_FALSE(BatchState::make(chosen, state));
  BatchRequest request;
  request.penalty_window = 3;
  expect_refused(state->add(1, request),
                 "penalty_window is 3; allowed: -1 with HistoryForm::dense");
  request.penalty_window = -1;
  request.top_p_decay = 0.5F;
  expect_refused(state->add(1, request), "top_p_decay is 0.5; allowed: 1 with HistoryForm::dense");
  request.top_p_decay = 1;
  EXPECT_FALSE(state->add(1, request));
}

TEST(BatchState, TakesTheLimitsOfEveryRange) {
  const auto state = state_of();
  BatchRequest request;
  request.temperature = 0x1p-126F;
  request.repetition_penalty = kSmallestRepetitionPenalty;
  request.frequency_penalty = -kLargestPenalty;
  request.presence_penalty = kLargestPenalty;
  request.bias = {{99, -kInfinity}, {0, kLargestPenalty}};
  request.stop_ids = {0, 99};
  request.bad_words = {{1, 2}, {3}};
  request.allowed_ids = {0, 99};
  request.prompt = {-1, 0, 99, 1, 2, 3, 4, 5};
  expect_ok(state->add(~RequestId{0}, request));
  EXPECT_EQ(state->slot_of(~RequestId{0}), 0);
}

TEST(BatchState, GivesTheLowestFreeSlotOrTheOneThatIsNamed) {
  const auto state = state_of();
  expect_ok(state->add(7, {}, 1));
  expect_ok(state->add(8, {}));
  expect_ok(state->add(9, {}));
  EXPECT_EQ(state->slot_of(7), 1);
  EXPECT_EQ(state->slot_of(8), 0);
  EXPECT_EQ(state->slot_of(9), 2);
  expect_refused(state->add(10, {}), "number of requests is 4; allowed: 0 to 3 (capacity)");
  expect_ok(state->remove(8));
  expect_refused(state->add(10, {}, 1),
                 "slot is 1; allowed: a free slot; request 7 is in this one");
  expect_refused(state->add(10, {}, 3), "slot is 3; allowed: 0 to 2 (capacity - 1)");
  expect_refused(state->add(10, {}, -2), "slot is -2; allowed: 0 to 2 (capacity - 1)");
  expect_refused(state->add(9, {}),
                 "request id is 9; allowed: an id that is not in the batch; this one is in slot 2");
  expect_ok(state->add(10, {}));
  EXPECT_EQ(state->slot_of(10), 0);
}

TEST(BatchState, RefusesRequestsItDoesNotKnow) {
  const auto state = state_of();
  expect_ok(state->add(1, {}));
  RequestSnapshot snapshot;
  const std::int32_t token = 5;
  const std::string message = "request id is 2; allowed: the id of a request in the batch";
  expect_refused(state->remove(2), message);
  expect_refused(state->evict(2, snapshot), message);
  expect_refused(state->append(2, &token, 1), message);
  EXPECT_EQ(state->slot_of(2), -1);
  EXPECT_EQ(state->size(), 1);
}

TEST(BatchState, RefusesTokensThatAreNoneAndHistoriesThatAreFull) {
  const auto state = state_of();
  BatchRequest request = with_prompt({1, 2, 3, 4, 5});
  request.first_offset = 40;
  expect_ok(state->add(1, request));
  const std::vector<std::int32_t> tokens = {6, 7, 8, 9};
  expect_refused(state->append(1, tokens.data(), 4),
                 "history of request 1 is 5 + 4 tokens; allowed: 0 to 8 (max_length)");
  expect_refused(state->append(1, tokens.data(), -1), "count is -1; allowed: >= 0");
  expect_refused(state->append(1, nullptr, 1), "tokens is null; allowed: an array");
  const std::vector<std::int32_t> bad = {6, 100};
  expect_refused(state->append(1, bad.data(), 2), "tokens[1] is 100; allowed: 0 to 99");
  EXPECT_EQ(state->output(0).size, 0);
  EXPECT_EQ(state->offset(0), 40U);
  expect_ok(state->append(1, tokens.data(), 3));
  EXPECT_EQ(list(state->output(0)), (std::vector<std::int32_t>{6, 7, 8}));
  EXPECT_EQ(state->offset(0), 43U);
}

TEST(BatchState, AStepsTokensAreAppendedTogetherOrNotAtAll) {
  const auto state = state_of();
  expect_ok(state->add(1, with_prompt({1, 2, 3, 4, 5, 6, 7, 8})));  // full
  expect_ok(state->add(2, {}, 2));
  const std::vector<std::vector<std::int32_t>> refused = {
      {5, -1, 5}, {-1, 5, 5}, {-1, -1, 100}, {-1, -1, -2}, {-1, -1, 5, -1}};
  const char* const messages[] = {
      "history of request 1 is 8 + 1 tokens; allowed: 0 to 8 (max_length)",
      "tokens[1] is 5; allowed: -1: the slot is empty",
      "tokens[2] is 100; allowed: -1 to 99",
      "tokens[2] is -2; allowed: -1 to 99",
      "length of tokens is 4; allowed: 0 to 3 (capacity)",
  };
  for (std::size_t i = 0; i < refused.size(); ++i) {
    const auto& tokens = refused[i];
    expect_refused(state->append_step({tokens.data(), static_cast<std::int64_t>(tokens.size())}),
                   messages[i]);
    EXPECT_EQ(state->output(2).size, 0);
  }
  const std::vector<std::int32_t> good = {-1, -1, 5};
  expect_ok(state->append_step({good.data(), 3}));
  EXPECT_EQ(list(state->output(2)), (std::vector<std::int32_t>{5}));
}

TEST(BatchState, SwapsRefuseSlotsThatAreNone) {
  const auto state = state_of();
  expect_refused(state->swap(-1, 0), "first is -1; allowed: 0 to 2 (capacity - 1)");
  expect_refused(state->swap(0, 3), "second is 3; allowed: 0 to 2 (capacity - 1)");
}

TEST(BatchState, CompactMovesTheHighestIntoTheLowestHole) {
  BatchStateOptions six = options();
  six.capacity = 6;
  const auto state = state_of(six);
  for (const std::int32_t slot : {1, 3, 4, 5}) {
    expect_ok(state->add(static_cast<RequestId>(slot), with_prompt({slot}), slot));
  }
  std::vector<std::vector<std::int32_t>> moves;
  for (const SlotMove move : state->compact()) moves.push_back({move.from, move.to});
  EXPECT_EQ(moves, (std::vector<std::vector<std::int32_t>>{{5, 0}, {4, 2}}));
  EXPECT_EQ(state->slots(), 4);
  const std::int32_t expected[] = {5, 1, 4, 3};
  for (std::int32_t slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(state->id_at(slot), static_cast<RequestId>(expected[slot]));
    EXPECT_EQ(list(state->prompt(slot)), (std::vector<std::int32_t>{expected[slot]}));
  }
  EXPECT_TRUE(state->compact().empty());
}

TEST(BatchState, ASnapshotGoesIntoAnyStateThatHasRoomForIt) {
  const auto state = state_of();
  BatchRequest request = with_prompt({1, -1});
  request.seed = 11;
  request.bias = {{4, -kInfinity}};
  request.bad_words = {{1, 2}, {3}};
  expect_ok(state->add(1, request, 2));
  const std::vector<std::int32_t> tokens = {5, 6};
  expect_ok(state->append(1, tokens.data(), 2));
  RequestSnapshot snapshot;
  expect_ok(state->evict(1, snapshot));
  EXPECT_EQ(state->size(), 0);
  EXPECT_EQ(snapshot.request.first_offset, 0U);
  EXPECT_EQ(snapshot.output, tokens);

  BatchStateOptions other = options();
  other.capacity = 1;
  other.history = HistoryForm::dense;
  const auto next = state_of(other);
  expect_ok(next->restore(snapshot));
  EXPECT_EQ(next->slot_of(1), 0);
  EXPECT_EQ(next->offset(0), 2U);
  EXPECT_EQ(list(next->prompt(0)), request.prompt);
  EXPECT_EQ(list(next->output(0)), tokens);

  other.max_length = 3;
  const auto small = state_of(other);
  expect_refused(small->restore(snapshot),
                 "length of prompt and output together is 4; allowed: 0 to 3 (max_length)");
  snapshot.output = {5, -1};
  expect_refused(state->restore(snapshot), "output[1] is -1; allowed: 0 to 99");
  snapshot.output = {};
  snapshot.allowed = {1};
  expect_refused(state->restore(snapshot),
                 "length of allowed is 1; allowed: 4 (ceil(vocab / 32), or none)");
  EXPECT_EQ(state->size(), 0);
}

TEST(BatchState, RefusesBitmasksThatDoNotFit) {
  const auto state = state_of();
  expect_ok(state->add(1, {}, 1));
  const std::vector<std::uint32_t> words(16);
  expect_refused(state->set_allowed({words.data(), 1, 4}),
                 "packed.rows is 1; allowed: 2 (slots) to 3 (capacity)");
  expect_refused(state->set_allowed({words.data(), 4, 4}),
                 "packed.rows is 4; allowed: 2 (slots) to 3 (capacity)");
  expect_refused(state->set_allowed({words.data(), 2, 3}),
                 "packed.row_stride is 3; allowed: >= 4 (words of a row, ceil(vocab / 32))");
  expect_refused(state->set_allowed({nullptr, 2, 4}),
                 "packed.data is null; allowed: a pointer to rows of words");
}

TEST(BatchState, ACallHasRowsForEveryRequest) {
  const auto state = state_of();
  expect_ok(state->add(1, {}, 1));
  const float nothing = 0;
  SampleRequest call;
  const RowsView one = {&nothing, DType::float32, 1, 100, 100};
  expect_refused(state->sample_request(one, call),
                 "logits.rows is 1; allowed: 2 (slots) to 3 (capacity)");
  const RowsView narrow = {&nothing, DType::float32, 2, 99, 99};
  expect_refused(state->sample_request(narrow, call),
                 "length of a row of logits is 99; allowed: 100 (vocab of the batch state)");
}

// Requests without a seed never draw with the same bits, and a copy of a request keeps its seed.
TEST(BatchState, RequestsWithoutASeedHaveFreshOnes) {
  constexpr int kRequests = 1000;  // the probability that two of them have equal 64-bit seeds is
                                   // 3e-14
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < kRequests; ++i) seeds.insert(BatchRequest{}.seed);
  EXPECT_EQ(seeds.size(), std::size_t{kRequests});
}

}  // namespace
}  // namespace fairdraw::suites::batches
