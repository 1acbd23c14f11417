// From an engine's request to a request of a batch.
#include "fairdraw/batch_request.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fairdraw/fused_sampling_processor.h"
#include "fairdraw/parallel_sampling.h"

namespace fairdraw::suites::batches {
namespace {

BatchStateOptions options() {
  BatchStateOptions made;
  made.vocab = 100;
  made.capacity = 2;
  made.max_length = 16;
  return made;
}

/// Every member that a batch's request takes, none at its default.
RequestParameters all_set() {
  RequestParameters parameters;
  parameters.temperature = 0.5F;
  parameters.top_k = 7;
  parameters.top_p = 0.25F;
  parameters.min_p = 0.125F;
  parameters.seed = 99;
  parameters.repetition_penalty = 1.5F;
  parameters.repetition_of_prompt = false;
  parameters.frequency_penalty = 2;
  parameters.presence_penalty = -1;
  parameters.logit_bias = {{4, 0.5F}, {5, -3.0F}};
  parameters.bad_words = {{1, 2}, {3}};
  parameters.allowed_ids = {1, 2, 3};
  parameters.min_tokens = 5;
  parameters.stop_ids = {8};
  return parameters;
}

TEST(BatchRequestFrom, TakesEveryParameter) {
  RequestContext context;
  context.prompt = {10, -1, 11};
  context.eos_id = 9;
  BatchRequest request;
  const Error error = batch_request_from(all_set(), context, options(), request);
  ASSERT_FALSE(error) << error.message;
  EXPECT_EQ(request.temperature, 0.5F);
  EXPECT_EQ(request.top_k, 7);
  EXPECT_EQ(request.top_p, 0.25F);
  EXPECT_EQ(request.min_p, 0.125F);
  EXPECT_EQ(request.seed, 99U);
  EXPECT_EQ(request.repetition_penalty, 1.5F);
  EXPECT_FALSE(request.repetition_of_prompt);
  EXPECT_EQ(request.frequency_penalty, 2);
  EXPECT_EQ(request.presence_penalty, -1);
  ASSERT_EQ(request.bias.size(), 2U);
  EXPECT_EQ(request.bias[1].token, 5);
  EXPECT_EQ(request.bias[1].bias, -3.0F);
  EXPECT_EQ(request.bad_words, all_set().bad_words);
  EXPECT_EQ(request.allowed_ids, all_set().allowed_ids);
  EXPECT_EQ(request.min_tokens, 5);
  EXPECT_EQ(request.stop_ids, (std::vector<std::int32_t>{8, 9}));
  EXPECT_EQ(request.prompt, context.prompt);

  std::unique_ptr<BatchState> state;
  ASSERT_FALSE(BatchState::make(options(), state));
  EXPECT_FALSE(state->add(1, request));
}

TEST(BatchRequestFrom, SeedsChildrenAndRequestsThatHaveNone) {
  RequestParameters parameters = all_set();
  RequestContext context;
  context.fresh_seed = 1234;
  context.child = 3;
  BatchRequest request;
  for (const ChildSeedRule rule : {ChildSeedRule::threefry, ChildSeedRule::seed_plus_index}) {
    parameters.child_seed_rule = rule;
    parameters.seed = 99;
    ASSERT_FALSE(batch_request_from(parameters, context, options(), request));
    EXPECT_EQ(request.seed, child_seed(99, 3, rule));
    parameters.seed.reset();
    ASSERT_FALSE(batch_request_from(parameters, context, options(), request));
    EXPECT_EQ(request.seed, child_seed(1234, 3, rule));
  }
}

TEST(BatchRequestFrom, IgnoresTheEosWhereTheRequestDoes) {
  RequestParameters parameters = all_set();
  parameters.ignore_eos = true;
  RequestContext context;
  context.eos_id = 9;
  BatchRequest request;
  ASSERT_FALSE(batch_request_from(parameters, context, options(), request));
  EXPECT_EQ(request.stop_ids, (std::vector<std::int32_t>{8}));
}

TEST(BatchRequestFrom, RefusesWhatAStateCannotDo) {
  const auto refusal = [](void (*change)(RequestParameters&), const BatchStateOptions& chosen) {
    RequestParameters parameters = all_set();
    change(parameters);
    BatchRequest request;
    const Error error = batch_request_from(parameters, {}, chosen, request);
    EXPECT_EQ(error.code, error.message.empty() ? ErrorCode::ok : ErrorCode::unsupported);
    return error.message;
  };
  EXPECT_EQ(refusal([](auto& p) { p.counts_of_prompt = true; }, options()),
            "counts_of_prompt is true; allowed: false with frequency and presence penalties");
  EXPECT_EQ(refusal([](auto& p) { p.penalty_window = 64; }, options()),
            "penalty_window is 64; allowed: -1 (all tokens) with penalties");
  EXPECT_EQ(refusal([](auto& p) { p.tie_rule = TieRule::lowest_id; }, options()),
            "tie_rule is lowest_id; allowed: keep_all, the batch state's");
  EXPECT_EQ(refusal([](auto& p) { p.filter_order = FilterOrder::joint; }, options()),
            "filter_order is joint; allowed: top_k_first, the batch state's");
  BatchStateOptions other = options();
  other.tie_rule = TieRule::lowest_id;
  other.filter_order = FilterOrder::joint;
  const auto as_the_state = [](RequestParameters& p) {
    p.tie_rule = TieRule::lowest_id;
    p.filter_order = FilterOrder::joint;
  };
  EXPECT_EQ(refusal(as_the_state, other), "");

  // Where there is nothing to decide, nothing is refused.
  const auto neutral = [](RequestParameters& p) {
    p.top_k = 0;
    p.tie_rule = TieRule::lowest_id;
    p.filter_order = FilterOrder::joint;
    p.repetition_penalty = 1;
    p.frequency_penalty = p.presence_penalty = 0;
    p.counts_of_prompt = true;
    p.penalty_window = 64;
  };
  EXPECT_EQ(refusal(neutral, options()), "");

  BatchRequest request;
  RequestContext context;
  context.child = -1;
  EXPECT_EQ(batch_request_from(all_set(), context, options(), request).message,
            "child is -1; allowed: >= 0");
}

TEST(BatchRequestFrom, AnEnginesRequestRunsInABatch) {
  VllmRequest vllm;
  vllm.temperature = 0.7;
  vllm.top_p = 0.9;
  vllm.seed = 3;
  RequestParameters parameters;
  ASSERT_FALSE(from_vllm(vllm, options().vocab, parameters));
  BatchRequest request;
  ASSERT_FALSE(batch_request_from(parameters, {}, options(), request));
  EXPECT_EQ(request.temperature, 0.7F);
  EXPECT_EQ(request.top_p, 0.9F);
  EXPECT_EQ(request.seed, 3U);
  std::unique_ptr<BatchState> state;
  ASSERT_FALSE(BatchState::make(options(), state));
  EXPECT_FALSE(state->add(1, request));
}

// Without a seed no two requests draw the same; with one, 0 too, it is that one.
TEST(BatchRequestFrom, RequestsWithoutASeedHaveFreshOnesAndSayWhich) {
  constexpr int kRequests = 1000;  // two of 2^64 are equal with 3e-14
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < kRequests; ++i) {
    seeds.insert(BatchRequest{}.seed);
    BatchRequest request;
    ASSERT_FALSE(batch_request_from(RequestParameters{}, {}, options(), request));
    seeds.insert(request.seed);
  }
  EXPECT_EQ(seeds.size(), 2U * kRequests);

  RequestParameters parameters;
  parameters.seed = 0;
  BatchRequest request;
  ASSERT_FALSE(batch_request_from(parameters, {}, options(), request));
  EXPECT_EQ(request.seed, 0U);

  // The n outputs of a prompt share its fresh seed: child 0 has it, the others follow from it.
  RequestContext context;
  ASSERT_FALSE(batch_request_from(RequestParameters{}, context, options(), request));
  EXPECT_EQ(request.seed, context.fresh_seed);
  context.child = 3;
  ASSERT_FALSE(batch_request_from(RequestParameters{}, context, options(), request));
  EXPECT_EQ(request.seed, child_seed(context.fresh_seed, 3));
}

// Two requests of defaults in a batch, on equal logits: 64 equal tokens of 1000 would be a seed in
// common (1000^-64 by chance).
TEST(BatchRequestFrom, DefaultRequestsDrawOtherTokens) {
  constexpr std::int64_t kVocab = 1000;
  BatchStateOptions large = options();
  large.vocab = kVocab;
  large.max_length = 128;
  std::unique_ptr<BatchState> state;
  ASSERT_FALSE(BatchState::make(large, state));
  ASSERT_FALSE(state->add(1, {}));
  ASSERT_FALSE(state->add(2, {}));
  FusedSamplingProcessor processor(*state);
  const std::vector<float> logits(2 * kVocab, 0.0F);
  int equal = 0;
  constexpr int kSteps = 64;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_FALSE(processor.step({logits.data(), DType::float32, 2, kVocab, kVocab}));
    const View<const std::int32_t> tokens = processor.new_tokens();
    equal += tokens.data[0] == tokens.data[1];
  }
  EXPECT_LT(equal, kSteps);
}

}  // namespace
}  // namespace fairdraw::suites::batches
