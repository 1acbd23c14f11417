// Tests each profile on one row that shows the property for which the engine is known. The rows
// have dyadic probabilities and the profiles have no numeric error, so that equality at a boundary
// is decided.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/real_oracle.h"

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using Ids = std::vector<std::size_t>;

// Returns the definitions of a profile without the numeric error of its engine.
Semantics exactly(const char* name) {
  Semantics semantics = *find_profile(name);
  semantics.relative_weight_error = semantics.relative_sum_error = 0;
  semantics.rounds_scaled_logits = false;
  semantics.masked_probability_floor = semantics.top_p_resolution = 0;
  semantics.sequential_sums = false;
  return semantics;
}

Ids with(const RealDistribution& distribution, Membership membership) {
  Ids ids;
  for (std::size_t id = 0; id < distribution.membership.size(); ++id) {
    if (distribution.membership[id] == membership) ids.push_back(id);
  }
  return ids;
}

// Replaces a top_k of 0, which the tests use for off, by the vocabulary size, which turns top_k off
// in every profile.
RealDistribution distribution_of(std::vector<float> probs, RowParameters parameters,
                                 const Semantics& semantics) {
  if (parameters.top_k == 0) parameters.top_k = static_cast<std::int32_t>(probs.size());
  return real_oracle_from_probs(probs, parameters, semantics);
}

TEST(Profiles, DecideEqualityAtTheBoundaryOfTopP) {
  const std::vector<float> probs = {0.5F, 0.25F, 0.125F, 0.125F};
  for (const char* name : {"fairdraw", "vllm_torch", "flashinfer", "hf", "rosellm"}) {
    const RealDistribution distribution = distribution_of(probs, {.top_p = 0.5F}, exactly(name));
    EXPECT_EQ(with(distribution, Membership::in), (Ids{0})) << name;
    EXPECT_EQ(with(distribution, Membership::ambiguous), Ids{}) << name;
  }
  Semantics one_more = exactly("fairdraw");
  one_more.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  EXPECT_EQ(with(distribution_of(probs, {.top_p = 0.5F}, one_more), Membership::in), (Ids{0, 1}));
  EXPECT_EQ(with(distribution_of(probs, {.top_p = 0.75F}, one_more), Membership::in),
            (Ids{0, 1, 2, 3}));
}

TEST(Profiles, RosellmDropsTheTokenThatCrosses) {
  const std::vector<float> probs = {0.5F, 0.25F, 0.125F, 0.125F};
  const float p = 0.8125F;
  EXPECT_EQ(with(distribution_of(probs, {.top_p = p}, exactly("fairdraw")), Membership::in),
            (Ids{0, 1, 2, 3}));  // the crossing token stays, and so does its tie
  EXPECT_EQ(with(distribution_of(probs, {.top_p = p}, exactly("rosellm")), Membership::in),
            (Ids{0, 1}));
  // If the mass up to a token equals p, the token stays; the first token always stays.
  EXPECT_EQ(with(distribution_of(probs, {.top_p = 0.75F}, exactly("rosellm")), Membership::in),
            (Ids{0, 1}));
  EXPECT_EQ(with(distribution_of(probs, {.top_p = 0.25F}, exactly("rosellm")), Membership::in),
            (Ids{0}));
}

TEST(Profiles, RosellmCanDrawEveryToken) {
  const std::vector<float> logits = {0, -kInfinity, -1, 3};
  const RealDistribution distribution =
      real_oracle(logits, {}, {.top_k = 1}, *find_profile("rosellm"));
  EXPECT_EQ(with(distribution, Membership::in), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(distribution.support_low, 4);
  const double sum = 1 + 3e-9;
  EXPECT_DOUBLE_EQ(distribution.probability[0], 1e-9 / sum);
  EXPECT_DOUBLE_EQ(distribution.probability[1], 1e-9 / sum);
  EXPECT_DOUBLE_EQ(distribution.probability[3], 1 / sum);
  // Greedy rows end before RoseLLM's clamp.
  const RealDistribution greedy =
      real_oracle(logits, {}, {.temperature = 0}, *find_profile("rosellm"));
  EXPECT_EQ(with(greedy, Membership::in), (Ids{3}));
  EXPECT_EQ(greedy.probability[3], 1);
}

TEST(Profiles, LeaveTiesOpenWhereASortDecides) {
  // The nucleus of p = 0.5 needs two of the three tied tokens (mass 1/4 + 1/4); only engines that
  // sort keep exactly two.
  const std::vector<float> probs = {0.25F, 0.125F, 0.25F, 0.125F, 0.25F};
  const RealDistribution all = distribution_of(probs, {.top_p = 0.5F}, exactly("flashinfer"));
  EXPECT_EQ(with(all, Membership::in), (Ids{0, 2, 4}));
  for (const char* name : {"vllm_torch", "hf", "rosellm"}) {
    const RealDistribution distribution = distribution_of(probs, {.top_p = 0.5F}, exactly(name));
    EXPECT_EQ(with(distribution, Membership::ambiguous), (Ids{0, 2, 4})) << name;
    EXPECT_EQ(distribution.support_low, 2) << name;
    EXPECT_EQ(distribution.support_high, 2) << name;
    EXPECT_EQ(distribution.probability[0], 0.5) << name;
    EXPECT_EQ(distribution.probability[2], 0.5) << name;
    EXPECT_EQ(distribution.ambiguous_mass, 1.5) << name;
  }
}

TEST(Profiles, AnyKKeepsExactlyK) {
  Semantics semantics = exactly("fairdraw");
  semantics.top_k_ties = TopKTies::any_k;
  const std::vector<float> probs = {0.5F, 0.125F, 0.125F, 0.125F, 0.125F};
  const RealDistribution distribution = distribution_of(probs, {.top_k = 3}, semantics);
  EXPECT_EQ(with(distribution, Membership::in), (Ids{0}));
  EXPECT_EQ(with(distribution, Membership::ambiguous), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(distribution.support_low, 3);
  EXPECT_EQ(distribution.support_high, 3);
  // The mass of the tokens that top_k keeps is known to be 3/4, although it is open which tokens
  // these are. Token 0 alone has mass 1/2, which is above 0.625 and below 0.75 of the mass that
  // top_k keeps.
  const RealDistribution nucleus = distribution_of(probs, {.top_k = 3, .top_p = 0.625F}, semantics);
  EXPECT_EQ(with(nucleus, Membership::in), (Ids{0}));
  EXPECT_EQ(with(nucleus, Membership::ambiguous), Ids{});
  const RealDistribution wider = distribution_of(probs, {.top_k = 3, .top_p = 0.75F}, semantics);
  EXPECT_EQ(wider.support_low, 3);
  EXPECT_EQ(with(wider, Membership::ambiguous), (Ids{1, 2, 3, 4}));
  // If the k-th token is the last of the tied tokens, nothing is ambiguous.
  EXPECT_EQ(with(distribution_of(probs, {.top_k = 5}, semantics), Membership::ambiguous), Ids{});
}

TEST(Profiles, DifferInTheBaseOfTopP) {
  const std::vector<float> probs = {0.34375F, 0.25F,    0.203125F, 0.046875F,
                                    0.03125F, 0.03125F, 0.03125F,  0.0625F};
  Semantics joint = exactly("flashinfer");
  EXPECT_EQ(with(distribution_of(probs, {.top_k = 4, .top_p = 0.8125F}, joint), Membership::in),
            (Ids{0, 1, 2}));
  joint.top_p_base = TopPBase::joint;
  EXPECT_EQ(with(distribution_of(probs, {.top_k = 4, .top_p = 0.8125F}, joint), Membership::in),
            (Ids{0, 1, 2, 7}));
}

TEST(Profiles, DifferInThePlaceOfMinP) {
  // With min_p = 1/4 the first two tokens stay, which have 3/4 of the mass; the first has 1/2,
  // which is two thirds of that.
  const std::vector<float> probs = {0.5F, 0.25F, 0.0625F, 0.0625F, 0.0625F, 0.0625F};
  const RowParameters parameters = {.top_p = 0.625F, .min_p = 0.25F};
  EXPECT_EQ(with(distribution_of(probs, parameters, exactly("vllm_torch")), Membership::in),
            (Ids{0}));
  EXPECT_EQ(with(distribution_of(probs, parameters, exactly("hf")), Membership::in), (Ids{0, 1}));
  EXPECT_EQ(with(distribution_of(probs, {.min_p = 0.25F}, exactly("hf")), Membership::in),
            (Ids{0, 1}));
  EXPECT_EQ(
      with(distribution_of(probs, {.min_p = 0.25F}, exactly("rosellm")), Membership::in).size(),
      6U);
}

enum class Answer { distribution, fails, undefined };

Answer answer_of(const char* name, const RowParameters& parameters,
                 const std::vector<float>& logits = {1, 2, 0, 2}) {
  const RealDistribution distribution = real_oracle(logits, {}, parameters, *find_profile(name));
  if (distribution.defined) {
    EXPECT_FALSE(distribution.must_fail);
    return Answer::distribution;
  }
  EXPECT_EQ(with(distribution, Membership::out).size(), logits.size());
  return distribution.must_fail ? Answer::fails : Answer::undefined;
}

TEST(Profiles, DifferInWhatTheyRefuse) {
  struct Row {
    const char* name;
    Answer k_0, k_minus_1, k_minus_2, k_above_vocab, p_0, temperature_0, nan, p_above_1;
  };
  constexpr Answer distribution = Answer::distribution, fails = Answer::fails,
                   undefined = Answer::undefined;
  const Row rows[] = {
      {"fairdraw", distribution, distribution, fails, distribution, distribution, distribution,
       fails, fails},
      {"vllm_torch", distribution, distribution, fails, distribution, distribution, distribution,
       undefined, fails},
      {"flashinfer", undefined, distribution, distribution, distribution, undefined, distribution,
       undefined, undefined},
      {"hf", fails, fails, fails, distribution, distribution, fails, fails, fails},
      {"rosellm", distribution, distribution, distribution, fails, distribution, distribution,
       undefined, distribution},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(answer_of(row.name, {.top_k = 2}), distribution);
    EXPECT_EQ(answer_of(row.name, {.top_k = 0}), row.k_0);
    EXPECT_EQ(answer_of(row.name, {.top_k = -1}), row.k_minus_1);
    EXPECT_EQ(answer_of(row.name, {.top_k = -2}), row.k_minus_2);
    EXPECT_EQ(answer_of(row.name, {.top_k = 5}), row.k_above_vocab);
    EXPECT_EQ(answer_of(row.name, {.top_k = 2, .top_p = 0}), row.p_0);
    EXPECT_EQ(answer_of(row.name, {.temperature = 0, .top_k = 2}), row.temperature_0);
    EXPECT_EQ(answer_of(row.name, {.top_k = 2}, {1, std::nanf(""), 0}), row.nan);
    EXPECT_EQ(answer_of(row.name, {.top_k = 2}, {1, kInfinity, 0}), row.nan);
    EXPECT_EQ(answer_of(row.name, {.top_k = 2}, {-kInfinity, -kInfinity}), row.nan);
    EXPECT_EQ(answer_of(row.name, {.top_k = 2, .top_p = 1.5F}), row.p_above_1);
  }
  // RoseLLM runs argmax before torch.topk, which refuses k > V; llama.cpp's graph refuses such a k
  // before argmax.
  const RowParameters greedy = {.temperature = 0, .top_k = 5};
  EXPECT_EQ(answer_of("rosellm", greedy), distribution);
  EXPECT_EQ(answer_of("llamacpp_backend", greedy), fails);
}

TEST(Profiles, DifferInGreedyRows) {
  const std::vector<float> logits = {1, 2, 0, 2};
  const RowParameters zero = {.temperature = 0, .top_k = 3};
  const RealDistribution lowest = real_oracle(logits, {}, zero, *find_profile("fairdraw"));
  EXPECT_EQ(with(lowest, Membership::in), (Ids{1}));
  EXPECT_EQ(with(lowest, Membership::ambiguous), Ids{});
  EXPECT_EQ(lowest.total_variation_bound, 0);
  const RealDistribution any = real_oracle(logits, {}, zero, *find_profile("vllm_torch"));
  EXPECT_EQ(with(any, Membership::ambiguous), (Ids{1, 3}));
  EXPECT_EQ(any.support_low, 1);
  EXPECT_EQ(any.support_high, 1);
  const RealDistribution below =
      real_oracle(logits, {}, {.temperature = 9e-6F}, *find_profile("vllm_torch"));
  EXPECT_EQ(below.support_high, 1);
  // k = 1 is greedy in fairdraw; in other profiles k = 1 is an ordinary top_k that keeps ties.
  EXPECT_EQ(with(real_oracle(logits, {}, {.top_k = 1}, *find_profile("fairdraw")), Membership::in),
            (Ids{1}));
  EXPECT_EQ(with(real_oracle(logits, {}, {.top_k = 1}, *find_profile("hf")), Membership::in),
            (Ids{1, 3}));
  // FlashInfer's softmax at temperature 0 makes all tokens equally likely.
  const RealDistribution uniform =
      real_oracle(logits, {}, {.temperature = 0, .top_k = 4}, *find_profile("flashinfer"));
  EXPECT_EQ(uniform.probability, std::vector<double>(4, 0.25));
  EXPECT_FALSE(real_oracle(std::vector<float>{0, -kInfinity}, {}, {.temperature = 0, .top_k = 2},
                           *find_profile("flashinfer"))
                   .defined);
}

TEST(Profiles, HaveNoDistributionWhereScalingOverflows) {
  const std::vector<float> logits = {3e38F, 0};
  EXPECT_FALSE(
      real_oracle(logits, {}, {.temperature = 0.5F, .top_k = 2}, *find_profile("hf")).defined);
  EXPECT_TRUE(real_oracle(logits, {}, {.temperature = 2, .top_k = 2}, *find_profile("hf")).defined);
  EXPECT_TRUE(real_oracle(logits, {}, {.temperature = 0.5F, .top_k = 2}, *find_profile("fairdraw"))
                  .defined);
}

TEST(WeightBound, IsTheFormulaOfTheSpecification) {
  const WeightBound bound;
  EXPECT_DOUBLE_EQ(bound.at(0), 0x1p-22 + 0x1p-48);
  EXPECT_DOUBLE_EQ(bound.at(-10), 0x1p-22 + 10 * 0x1p-24 * std::log(2.0) + 0x1p-38);
  WeightBound real = bound;
  real.truncation = false;
  EXPECT_DOUBLE_EQ(real.at(10), 0x1p-22 + 10 * 0x1p-24 * std::log(2.0));
}

}  // namespace
}  // namespace fairdraw::reference
