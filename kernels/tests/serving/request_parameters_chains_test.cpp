// Requests of Hugging Face, MAX and llama.cpp: what their fields mean here, and what their engines
// (or fairdraw) refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "tests/serving/request_translation.h"

namespace fairdraw::suites {
namespace {

// ---- Hugging Face

TEST(HuggingFaceRequests, GreedyUnlessItSamples) {
  using R = HuggingFaceRequest;
  expect_greedy(taken<R>([](R& r) {
    r.temperature = 0;  // is not read
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

}  // namespace
}  // namespace fairdraw::suites
