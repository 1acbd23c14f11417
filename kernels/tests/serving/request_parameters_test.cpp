// Requests of serving engines (vLLM, SGLang, TensorRT-LLM): what their fields mean here, and what
// their engines (or fairdraw) refuse.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/serving/request_translation.h"

namespace fairdraw::suites {
namespace {

// ---- vLLM

TEST(VllmRequests, Defaults) {
  const RequestParameters p = taken<VllmRequest>([](VllmRequest&) {});
  EXPECT_FALSE(p.greedy);
  EXPECT_EQ(p.temperature, 1);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.max_tokens, 16);
  EXPECT_EQ(p.seed, std::nullopt);
  EXPECT_EQ(p.child_seed_rule, ChildSeedRule::seed_plus_index);
  EXPECT_EQ(p.filter_order, FilterOrder::top_k_first);
  EXPECT_TRUE(p.adjustments.empty());
  EXPECT_TRUE(p.differences.empty());
}

TEST(VllmRequests, TemperaturesBelowAHundredthAreRaisedAndZeroIsGreedy) {
  for (const double low : {1e-9, 9e-6, 0.005}) {
    const auto p = taken<VllmRequest>([low](VllmRequest& r) { r.temperature = low; });
    EXPECT_EQ(p.temperature, 0.01F);
    EXPECT_FALSE(p.greedy);
    ASSERT_EQ(p.adjustments.size(), 1U);
    EXPECT_NE(p.adjustments[0].find("is raised to 0.01"), std::string::npos);
  }
  expect_greedy(taken<VllmRequest>([](VllmRequest& r) {
    r.temperature = 0;
    r.top_k = 5;
    r.top_p = 0.5;
    r.min_p = 0.1;
  }));
  expect_refused<VllmRequest>("n is 2; allowed: 1 where temperature is 0", [](VllmRequest& r) {
    r.temperature = 0;
    r.n = 2;
  });
}

TEST(VllmRequests, OffAndUnseeded) {
  for (const std::int64_t off : {std::int64_t{0}, std::int64_t{-1}, kVocab, kVocab + 1}) {
    EXPECT_EQ(taken<VllmRequest>([off](VllmRequest& r) { r.top_k = off; }).top_k, 0);
  }
  EXPECT_EQ(taken<VllmRequest>([](VllmRequest& r) { r.top_k = kVocab - 1; }).top_k, kVocab - 1);
  EXPECT_EQ(taken<VllmRequest>([](VllmRequest& r) { r.seed = -1; }).seed, std::nullopt);
  EXPECT_EQ(taken<VllmRequest>([](VllmRequest& r) { r.seed = 0; }).seed, 0U);
  EXPECT_EQ(taken<VllmRequest>([](VllmRequest& r) { r.seed = -2; }).seed, ~std::uint64_t{1});
  EXPECT_EQ(taken<VllmRequest>([](VllmRequest& r) { r.max_tokens.reset(); }).max_tokens,
            kNoMaxTokens);
}

TEST(VllmRequests, ListsAreTakenBiasesClampedStopsOnce) {
  const auto p = taken<VllmRequest>([](VllmRequest& r) {
    r.stop_token_ids = {5, 7, 5};
    r.logit_bias = {{3, 250.0}, {4, -kInfinity}, {6, 0.5}};
    r.allowed_token_ids = TokenIds{1, 2};
    r.bad_words = {{1}, {2, 3}};
  });
  EXPECT_EQ(p.stop_ids, (TokenIds{5, 7}));
  EXPECT_EQ(p.logit_bias,
            (std::vector<std::pair<std::int32_t, float>>{{3, 100.0F}, {4, -100.0F}, {6, 0.5F}}));
  EXPECT_EQ(p.adjustments.size(), 2U);
  EXPECT_EQ(p.allowed_ids, (TokenIds{1, 2}));
  EXPECT_EQ(p.bad_words, (std::vector<TokenIds>{{1}, {2, 3}}));
}

TEST(VllmRequests, Refused) {
  using R = VllmRequest;
  expect_refused<R>("n is 0; allowed: 1 to 16384", [](R& r) { r.n = 0; });
  expect_refused<R>("n is 16385", [](R& r) { r.n = 16385; });
  for (const double bad : {-0.1, 2.1, kNan, kInfinity, -kInfinity}) {
    expect_refused<R>("temperature is", [bad](R& r) { r.temperature = bad; });
  }
  for (const double bad : {0.0, -0.1, 1.1, kNan}) {
    expect_refused<R>("top_p is", [bad](R& r) { r.top_p = bad; });
  }
  for (const double bad : {-0.1, 1.1, kNan}) {
    expect_refused<R>("min_p is", [bad](R& r) { r.min_p = bad; });
  }
  expect_refused<R>("top_k is -2; allowed: >= -1", [](R& r) { r.top_k = -2; });
  for (const double bad : {-2.1, 2.1, kNan, kInfinity}) {
    expect_refused<R>("presence_penalty is", [bad](R& r) { r.presence_penalty = bad; });
    expect_refused<R>("frequency_penalty is", [bad](R& r) { r.frequency_penalty = bad; });
  }
  for (const double bad : {0.0, -1.0, kNan, kInfinity, 1e300, 1e-300}) {
    expect_refused<R>("repetition_penalty is", [bad](R& r) { r.repetition_penalty = bad; });
  }
  expect_refused<R>("max_tokens is 0", [](R& r) { r.max_tokens = 0; });
  expect_refused<R>("min_tokens is -1", [](R& r) { r.min_tokens = -1; });
  expect_refused<R>("min_tokens is 17; allowed: 0 to max_tokens (16)",
                    [](R& r) { r.min_tokens = 17; });
  expect_refused<R>("logprobs is -2", [](R& r) { r.logprobs = -2; });
  expect_refused<R>("stop_token_ids[1] is 1000; allowed: 0 to 999",
                    [](R& r) { r.stop_token_ids = {1, 1000}; });
  expect_refused<R>("logit_bias[0] is nan", [](R& r) { r.logit_bias = {{1, kNan}}; });
  expect_refused<R>("logit_bias[0] is -1;", [](R& r) { r.logit_bias = {{-1, 0.0}}; });
  expect_refused<R>("allowed_token_ids is empty", [](R& r) { r.allowed_token_ids = TokenIds{}; });
  expect_refused<R>("allowed_token_ids[0] is -1", [](R& r) { r.allowed_token_ids = TokenIds{-1}; });
  expect_refused<R>("bad_words[1] is empty", [](R& r) { r.bad_words = {{1}, {}}; });
  expect_refused<R>("bad_words[0][1] is 1000", [](R& r) { r.bad_words = {{1, 1000}}; });
}

// ---- SGLang

TEST(SglangRequests, DefaultsAndGreedy) {
  using R = SglangRequest;
  const auto p = taken<R>([](R&) {});
  EXPECT_EQ(p.max_tokens, 128);
  EXPECT_EQ(p.filter_order, FilterOrder::joint);
  EXPECT_FALSE(p.repetition_of_prompt);
  expect_greedy(taken<R>([](R& r) { r.temperature = 9e-7; }));
  expect_greedy(taken<R>([](R& r) { r.top_k = 1; }));
  EXPECT_EQ(taken<R>([](R& r) { r.temperature = 1e-6; }).temperature, 1e-6F);
  EXPECT_EQ(taken<R>([](R& r) { r.top_k = -1; }).top_k, 0);
  EXPECT_EQ(taken<R>([](R& r) { r.sampling_seed = 42; }).seed, 42U);
}

TEST(SglangRequests, MinPIsBehindTopP) {
  using R = SglangRequest;
  const auto alone = taken<R>([](R& r) { r.min_p = 0.1; });
  EXPECT_EQ(alone.filter_order, FilterOrder::top_k_first);
  EXPECT_TRUE(alone.differences.empty());
  const auto both = taken<R>([](R& r) {
    r.min_p = 0.1;
    r.top_p = 0.9;
  });
  EXPECT_EQ(both.differences.size(), 1U);
}

TEST(SglangRequests, Refused) {
  using R = SglangRequest;
  expect_refused<R>("top_k is 0; allowed: -1, or >= 1", [](R& r) { r.top_k = 0; });
  for (const double bad : {-1e-9, kNan, kInfinity}) {
    expect_refused<R>("temperature is", [bad](R& r) { r.temperature = bad; });
  }
  expect_refused<R>("temperature is", [](R& r) { r.temperature = 1e30; });  // beyond float32's 2^64
  expect_refused<R>("top_p is 0", [](R& r) { r.top_p = 0; });
  expect_refused<R>("min_p is", [](R& r) { r.min_p = -0.5; });
  expect_refused<R>("repetition_penalty is 2.5; allowed: above 0, up to 2",
                    [](R& r) { r.repetition_penalty = 2.5; });
  expect_refused<R>("repetition_penalty is 0", [](R& r) { r.repetition_penalty = 0; });
  expect_refused<R>("frequency_penalty is 3", [](R& r) { r.frequency_penalty = 3; });
  expect_refused<R>("presence_penalty is -3", [](R& r) { r.presence_penalty = -3; });
  expect_refused<R>("min_new_tokens is 129; allowed: 0 to max_new_tokens (128)",
                    [](R& r) { r.min_new_tokens = 129; });
  expect_refused<R>("max_new_tokens is -1", [](R& r) { r.max_new_tokens = -1; });
  expect_refused<R>("n is 0", [](R& r) { r.n = 0; });
  expect_refused<R>("logit_bias[0] is 1000", [](R& r) { r.logit_bias = {{1000, 1.0}}; });
  expect_refused<R>("logit_bias[0] is 1e+30", [](R& r) { r.logit_bias = {{1, 1e30}}; });
}

// ---- TensorRT-LLM

TEST(TensorRtLlmRequests, GreedyWhereOneSaysSoOrNoneIsSet) {
  using R = TensorRtLlmRequest;
  expect_greedy(taken<R>([](R&) {}));
  expect_greedy(taken<R>([](R& r) { r.min_p = 0.5; }));  // temperature, top_k, top_p unset
  expect_greedy(taken<R>([](R& r) { r.temperature = 0; }));
  expect_greedy(taken<R>([](R& r) {
    r.top_p = 0;
    r.temperature = 2;
  }));
  expect_greedy(taken<R>([](R& r) { r.top_k = 1; }));
  expect_greedy(taken<R>([](R& r) {
    r.temperature = 1;
    r.min_p = 1;
  }));
  expect_refused<R>("best_of is 2; allowed: 1 for a greedy request", [](R& r) { r.best_of = 2; });
  expect_refused<R>("best_of is 3", [](R& r) { r.n = 3; });
}

TEST(TensorRtLlmRequests, WhatIsUnsetOrZeroIsNeutral) {
  using R = TensorRtLlmRequest;
  const auto p = taken<R>([](R& r) { r.top_k = 0; });
  EXPECT_FALSE(p.greedy);
  EXPECT_EQ(p.temperature, 1);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.seed, 0U);
  EXPECT_EQ(p.adjustments.size(), 1U);
  EXPECT_EQ(p.max_tokens, 32);
  const auto seeded = taken<R>([](R& r) {
    r.top_k = 40;
    r.seed = 9;
    r.n = 2;
    r.best_of = 0;  // as n
    r.stop_words = {{1, 2}};
  });
  EXPECT_EQ(seeded.top_k, 40);
  EXPECT_EQ(seeded.seed, 9U);
  EXPECT_EQ(seeded.best_of, 2);
  EXPECT_TRUE(seeded.adjustments.empty());
  EXPECT_EQ(seeded.stop_sequences, (std::vector<TokenIds>{{1, 2}}));
}

TEST(TensorRtLlmRequests, BeamSearch) {
  using R = TensorRtLlmRequest;
  const auto p = taken<R>([](R& r) {
    r.use_beam_search = true;
    r.n = 2;
    r.best_of = 4;
  });
  EXPECT_EQ(p.beam_width, 4);
  EXPECT_EQ(p.n, 2);
  EXPECT_EQ(p.early_stopping, 1);
  EXPECT_EQ(p.length_penalty, 0);
  const auto never = taken<R>([](R& r) {
    r.use_beam_search = true;
    r.best_of = 4;
    r.early_stopping = 7;
    r.length_penalty = 0.5;
  });
  EXPECT_EQ(never.early_stopping, 2);
  EXPECT_EQ(never.length_penalty, 0.5F);
  const auto beams = [](const std::function<void(R&)>& change) {
    return [change](R& r) {
      r.use_beam_search = true;
      r.best_of = 4;
      change(r);
    };
  };
  expect_refused<R>("best_of is 1025; allowed: 1 to 1024", beams([](R& r) { r.best_of = 1025; }));
  expect_refused<R>("best_of is 4; allowed: n to", beams([](R& r) { r.n = 5; }));
  expect_refused<R>("length_penalty is -1", beams([](R& r) { r.length_penalty = -1; }));
  expect_refused<R>("early_stopping is -1", beams([](R& r) { r.early_stopping = -1; }));
  expect_refused<R>("beam_search_diversity_rate is 0.5",
                    beams([](R& r) { r.beam_search_diversity_rate = 0.5; }),
                    ErrorCode::unsupported);
}

TEST(TensorRtLlmRequests, Refused) {
  using R = TensorRtLlmRequest;
  expect_refused<R>("temperature is -1", [](R& r) { r.temperature = -1; });
  expect_refused<R>("temperature is nan", [](R& r) { r.temperature = kNan; });
  expect_refused<R>("temperature is 0 as float32", [](R& r) { r.temperature = 1e-60; });
  expect_refused<R>("top_k is -1; allowed: >= 0", [](R& r) { r.top_k = -1; });
  expect_refused<R>("top_p is 1.5", [](R& r) { r.top_p = 1.5; });
  expect_refused<R>("min_p is -1", [](R& r) { r.min_p = -1; });
  expect_refused<R>("repetition_penalty is 0", [](R& r) { r.repetition_penalty = 0; });
  expect_refused<R>("frequency_penalty is inf", [](R& r) { r.frequency_penalty = kInfinity; });
  expect_refused<R>("presence_penalty is nan", [](R& r) { r.presence_penalty = kNan; });
  expect_refused<R>("min_tokens is 33", [](R& r) { r.min_tokens = 33; });
  expect_refused<R>("stop_words[0] is empty", [](R& r) { r.stop_words = {{}}; });
  const ErrorCode unsupported = ErrorCode::unsupported;
  expect_refused<R>("top_p_decay is 0.5", [](R& r) { r.top_p_decay = 0.5; }, unsupported);
  expect_refused<R>("top_p_min is set", [](R& r) { r.top_p_min = 0.5; }, unsupported);
  expect_refused<R>("top_p_reset_ids is set", [](R& r) { r.top_p_reset_ids = 1; }, unsupported);
  expect_refused<R>("no_repeat_ngram_size", [](R& r) { r.no_repeat_ngram_size = 3; }, unsupported);
}

// ---- All of them

TEST(Requests, AVocabularyOutOfItsRangeIsRefused) {
  RequestParameters p;
  for (const std::int64_t vocab : {std::int64_t{0}, kMaxVocab + 1}) {
    for (const Error& error :
         {from_vllm({}, vocab, p), from_sglang({}, vocab, p), from_tensorrt_llm({}, vocab, p),
          from_hugging_face({}, vocab, p), from_max({}, vocab, p), from_llama_cpp({}, vocab, p)}) {
      EXPECT_NE(error.message.find("vocab is " + std::to_string(vocab)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
