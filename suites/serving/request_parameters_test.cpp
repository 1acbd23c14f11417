// Requests of engines: what their fields mean here, and what their engines (or fairdraw) refuse.
#include "fairdraw/request_parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fairdraw/sample.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kVocab = 1000;
const double kNan = std::nan("");
const double kInfinity = std::numeric_limits<double>::infinity();

using Translate = std::function<Error(RequestParameters&)>;

Translate translate(const VllmRequest& r) {
  return [r](RequestParameters& p) { return from_vllm(r, kVocab, p); };
}
Translate translate(const SglangRequest& r) {
  return [r](RequestParameters& p) { return from_sglang(r, kVocab, p); };
}
Translate translate(const TensorRtLlmRequest& r) {
  return [r](RequestParameters& p) { return from_tensorrt_llm(r, kVocab, p); };
}
Translate translate(const HuggingFaceRequest& r) {
  return [r](RequestParameters& p) { return from_hugging_face(r, kVocab, p); };
}
Translate translate(const MaxRequest& r) {
  return [r](RequestParameters& p) { return from_max(r, kVocab, p); };
}
Translate translate(const LlamaCppRequest& r) {
  return [r](RequestParameters& p) { return from_llama_cpp(r, kVocab, p); };
}

/// The request with one thing changed.
template <class Request>
RequestParameters taken(const std::function<void(Request&)>& change) {
  Request request;
  change(request);
  RequestParameters parameters;
  const Error error = translate(request)(parameters);
  EXPECT_FALSE(error) << error.message;
  return parameters;
}

template <class Request>
void expect_refused(const std::string& part, const std::function<void(Request&)>& change,
                    ErrorCode code = ErrorCode::invalid_argument) {
  Request request;
  change(request);
  RequestParameters parameters;
  parameters.n = -7;
  const Error error = translate(request)(parameters);
  EXPECT_EQ(error.code, code) << part << ": " << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("allowed: "), std::string::npos) << error.message;
  EXPECT_EQ(parameters.n, -7);  // nothing was written
}

void expect_greedy(const RequestParameters& p) {
  EXPECT_TRUE(p.greedy);
  EXPECT_EQ(p.temperature, 0);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.min_p, 0);
}

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

// ---- Hugging Face

TEST(HuggingFaceRequests, GreedyUnlessItSamples) {
  using R = HuggingFaceRequest;
  expect_greedy(taken<R>([](R& r) {
    r.temperature = 0;  // is not looked at
    r.top_p = 7;
  }));
  const auto p = taken<R>([](R& r) { r.do_sample = true; });
  EXPECT_FALSE(p.greedy);
  EXPECT_EQ(p.top_k, 50);
  EXPECT_EQ(p.temperature, 1);
  EXPECT_EQ(p.seed, std::nullopt);
  for (const std::optional<std::int64_t> off : {std::optional<std::int64_t>(), {0}}) {
    const auto all = taken<R>([off](R& r) {
      r.do_sample = true;
      r.top_k = off;
    });
    EXPECT_EQ(all.top_k, 0);
  }
  const auto both = taken<R>([](R& r) {
    r.do_sample = true;
    r.top_p = 0.9;
    r.min_p = 0.1;
  });
  EXPECT_EQ(both.differences.size(), 1U);
}

TEST(HuggingFaceRequests, LengthsCountThePrompt) {
  using R = HuggingFaceRequest;
  EXPECT_EQ(taken<R>([](R&) {}).max_tokens, 20);
  EXPECT_EQ(taken<R>([](R& r) { r.prompt_tokens = 15; }).max_tokens, 5);
  const auto p = taken<R>([](R& r) {
    r.prompt_tokens = 15;
    r.max_new_tokens = 100;
    r.min_length = 40;
    r.min_new_tokens = 10;
  });
  EXPECT_EQ(p.max_tokens, 100);
  EXPECT_EQ(p.min_tokens, 25);
  expect_refused<R>("max_length is 20; allowed: above prompt_tokens (20)",
                    [](R& r) { r.prompt_tokens = 20; });
  expect_refused<R>("max_new_tokens is 0", [](R& r) { r.max_new_tokens = 0; });
  expect_refused<R>("min_new_tokens is 30", [](R& r) { r.min_new_tokens = 30; });
}

TEST(HuggingFaceRequests, Beams) {
  using R = HuggingFaceRequest;
  const auto p = taken<R>([](R& r) {
    r.num_beams = 4;
    r.num_return_sequences = 3;
    r.eos_token_id = {2, 3};
    r.early_stopping = HuggingFaceEarlyStopping::never;
  });
  EXPECT_EQ(p.beam_width, 4);
  EXPECT_EQ(p.n, 3);
  EXPECT_EQ(p.best_of, 4);
  EXPECT_EQ(p.early_stopping, 2);
  EXPECT_EQ(p.length_penalty, 1);
  EXPECT_EQ(p.stop_ids, (TokenIds{2, 3}));
  EXPECT_EQ(taken<R>([](R& r) { r.num_beams = 4; }).early_stopping, 0);
  expect_refused<R>("num_return_sequences is 5; allowed: 1 to num_beams (4)", [](R& r) {
    r.num_beams = 4;
    r.num_return_sequences = 5;
  });
  expect_refused<R>("num_return_sequences is 2", [](R& r) { r.num_return_sequences = 2; });
  expect_refused<R>(
      "do_sample is true",
      [](R& r) {
        r.num_beams = 2;
        r.do_sample = true;
      },
      ErrorCode::unsupported);
  expect_refused<R>("num_beams is 0", [](R& r) { r.num_beams = 0; });
}

TEST(HuggingFaceRequests, Refused) {
  using R = HuggingFaceRequest;
  const auto sampling = [](const std::function<void(R&)>& change) {
    return [change](R& r) {
      r.do_sample = true;
      change(r);
    };
  };
  expect_refused<R>("temperature is 0", sampling([](R& r) { r.temperature = 0; }));
  expect_refused<R>("top_k is -1", sampling([](R& r) { r.top_k = -1; }));
  expect_refused<R>("top_p is 1.5", sampling([](R& r) { r.top_p = 1.5; }));
  expect_refused<R>("min_p is 2", sampling([](R& r) { r.min_p = 2; }));
  expect_refused<R>("repetition_penalty is -1", [](R& r) { r.repetition_penalty = -1; });
  expect_refused<R>("eos_token_id[0] is -1", [](R& r) { r.eos_token_id = {-1}; });
  const ErrorCode unsupported = ErrorCode::unsupported;
  expect_refused<R>("typical_p is 0.5", [](R& r) { r.typical_p = 0.5; }, unsupported);
  expect_refused<R>("epsilon_cutoff", [](R& r) { r.epsilon_cutoff = 0.1; }, unsupported);
  expect_refused<R>("eta_cutoff", [](R& r) { r.eta_cutoff = 0.1; }, unsupported);
  expect_refused<R>("num_beam_groups is 2", [](R& r) { r.num_beam_groups = 2; }, unsupported);
  expect_refused<R>("diversity_penalty", [](R& r) { r.diversity_penalty = 1; }, unsupported);
}

// ---- MAX

TEST(MaxRequests, DefaultsAndGreedy) {
  using R = MaxRequest;
  const auto p = taken<R>([](R&) {});
  EXPECT_FALSE(p.greedy);
  EXPECT_EQ(p.max_tokens, kNoMaxTokens);
  EXPECT_EQ(p.filter_order, FilterOrder::joint);
  EXPECT_TRUE(p.repetition_of_prompt);
  expect_greedy(taken<R>([](R& r) { r.temperature = 0; }));
  expect_greedy(taken<R>([](R& r) { r.top_k = 1; }));
  EXPECT_EQ(taken<R>([](R& r) { r.top_k = 0; }).top_k, 0);
  EXPECT_EQ(taken<R>([](R& r) {
              r.min_p = 0.1;
              r.top_p = 0.5;
            }).differences.size(),
            1U);
}

TEST(MaxRequests, Refused) {
  using R = MaxRequest;
  expect_refused<R>("temperature is 2.5; allowed: 0 to 2", [](R& r) { r.temperature = 2.5; });
  expect_refused<R>("temperature is nan", [](R& r) { r.temperature = kNan; });
  expect_refused<R>("top_k is -2", [](R& r) { r.top_k = -2; });
  expect_refused<R>("top_p is -1", [](R& r) { r.top_p = -1; });
  expect_refused<R>("min_p is 2", [](R& r) { r.min_p = 2; });
  expect_refused<R>("repetition_penalty is inf", [](R& r) { r.repetition_penalty = kInfinity; });
  expect_refused<R>("frequency_penalty is nan", [](R& r) { r.frequency_penalty = kNan; });
  expect_refused<R>("presence_penalty is 2.5", [](R& r) { r.presence_penalty = 2.5; });
  expect_refused<R>(
      "thinking_temperature is set", [](R& r) { r.thinking_temperature = 1; },
      ErrorCode::unsupported);
}

// ---- llama.cpp

TEST(LlamaCppRequests, DefaultsHaveTheTemperatureLast) {
  using R = LlamaCppRequest;
  const auto p = taken<R>([](R&) {});
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(p.top_p, 0.95F);
  EXPECT_EQ(p.temperature, 0.8F);
  EXPECT_EQ(p.tie_rule, TieRule::lowest_id);
  EXPECT_EQ(p.penalty_window, 64);
  EXPECT_TRUE(p.counts_of_prompt);
  EXPECT_EQ(p.seed, std::nullopt);
  EXPECT_EQ(p.max_tokens, kNoMaxTokens);
  // x >= max + ln(min_p) before the division by T is x/T >= max/T + ln(min_p)/T behind it.
  EXPECT_EQ(p.min_p, static_cast<float>(
                         std::pow(static_cast<double>(0.05F), 1 / static_cast<double>(0.8F))));
  EXPECT_EQ(p.differences.size(), 2U);  // top_p: before the temperature, and before min_p
}

TEST(LlamaCppRequests, MinPBeforeTheTemperatureKeepsTheSameTokens) {
  // Logits 0, -1/4, ... -3: the boundary ln(0.2) = -1.609 lies far from all of them.
  std::vector<float> logits;
  for (int i = 0; i <= 12; ++i) logits.push_back(-0.25F * static_cast<float>(i));
  RequestParameters p;
  LlamaCppRequest llama;
  llama.temp = 0.5F;
  llama.min_p = 0.2F;
  llama.samplers = {LlamaCppSampler::min_p, LlamaCppSampler::temperature};
  ASSERT_FALSE(from_llama_cpp(llama, 13, p));
  EXPECT_TRUE(p.differences.empty());
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 1, 13, 13};
  request.temperature = p.temperature;
  request.min_p = p.min_p;
  std::int32_t token = -7, support = -7;
  SampleResult result;
  result.tokens = {&token, 1};
  result.support_size = {&support, 1};
  ASSERT_FALSE(sample(request, result));
  EXPECT_EQ(support, 7);  // 0 to -1.5
}

TEST(LlamaCppRequests, OrderAndWhatIsNotInTheChain) {
  using R = LlamaCppRequest;
  using S = LlamaCppSampler;
  const auto first = taken<R>([](R& r) {
    r.samplers = {S::temperature, S::min_p, S::top_k, S::top_p};
    r.penalty_repeat = 1.5F;  // no sampler of the chain
  });
  EXPECT_TRUE(first.differences.empty());
  EXPECT_TRUE(first.adjustments.empty());
  EXPECT_EQ(first.min_p, 0.05F);
  EXPECT_EQ(first.repetition_penalty, 1);
  EXPECT_EQ(first.filter_order, FilterOrder::top_k_first);
  const auto joint = taken<R>([](R& r) { r.samplers = {S::top_p, S::top_k}; });
  EXPECT_EQ(joint.filter_order, FilterOrder::joint);
  EXPECT_EQ(joint.temperature, 1);
  EXPECT_EQ(joint.min_p, 0);
  EXPECT_TRUE(joint.differences.empty());
  const auto late = taken<R>([](R& r) {
    r.samplers = {S::top_k, S::penalties};
    r.penalty_repeat = 1.5F;
  });
  EXPECT_EQ(late.differences.size(), 1U);
  const auto off = taken<R>([](R& r) {
    r.penalty_last_n = 0;
    r.penalty_repeat = 1.5F;
  });
  EXPECT_EQ(off.repetition_penalty, 1);
}

TEST(LlamaCppRequests, GreedyAndOff) {
  using R = LlamaCppRequest;
  for (const float cold : {0.0F, -1.0F}) {
    const auto p = taken<R>([cold](R& r) { r.temp = cold; });
    expect_greedy(p);
    EXPECT_TRUE(p.differences.empty());
  }
  const auto p = taken<R>([](R& r) {
    r.top_k = -5;
    r.top_p = 2;
    r.min_p = -1;
    r.seed = 7;
    r.n_predict = 3;
  });
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.min_p, 0);
  EXPECT_EQ(p.seed, 7U);
  EXPECT_EQ(p.max_tokens, 3);
}

TEST(LlamaCppRequests, Refused) {
  using R = LlamaCppRequest;
  using S = LlamaCppSampler;
  const float nan = std::nanf("");
  expect_refused<R>("temp is nan", [nan](R& r) { r.temp = nan; });
  expect_refused<R>("top_p is nan", [nan](R& r) { r.top_p = nan; });
  expect_refused<R>("min_p is nan", [nan](R& r) { r.min_p = nan; });
  expect_refused<R>("penalty_last_n is -2", [](R& r) { r.penalty_last_n = -2; });
  expect_refused<R>("repetition_penalty is 0", [](R& r) { r.penalty_repeat = 0; });
  expect_refused<R>("frequency_penalty is nan", [nan](R& r) { r.penalty_freq = nan; });
  expect_refused<R>("n_predict is -2", [](R& r) { r.n_predict = -2; });
  expect_refused<R>("samplers[1] is 1; allowed: each sampler once",
                    [](R& r) { r.samplers = {S::top_k, S::top_k}; });
  expect_refused<R>("samplers[0] is 9", [](R& r) { r.samplers = {S{9}}; });
  const ErrorCode unsupported = ErrorCode::unsupported;
  expect_refused<R>("min_keep is 2", [](R& r) { r.min_keep = 2; }, unsupported);
  expect_refused<R>("xtc_probability", [](R& r) { r.xtc_probability = 0.5F; }, unsupported);
  expect_refused<R>("typ_p", [](R& r) { r.typ_p = 0.5F; }, unsupported);
  expect_refused<R>("dynatemp_range", [](R& r) { r.dynatemp_range = 0.5F; }, unsupported);
  expect_refused<R>("dry_multiplier", [](R& r) { r.dry_multiplier = 0.5F; }, unsupported);
  expect_refused<R>("top_n_sigma", [](R& r) { r.top_n_sigma = 1; }, unsupported);
  expect_refused<R>("mirostat is 2", [](R& r) { r.mirostat = 2; }, unsupported);
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
