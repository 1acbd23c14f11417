// Numbers that are too narrow: for sums, for noise, for small probabilities.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Order = FloatSampler::Order;
using Draw = FloatSampler::Draw;
using Scores = FloatSampler::Scores;

double gumbel(double uniform) { return -std::log(-std::log(uniform)); }

// The nucleus with its running sum in bfloat16: it stalls where an addend is below half a step.
void bf16_top_p(Scores& scores, float top_p) {
  if (top_p >= 1) return;
  const std::vector<float> probs = float_softmax(scores);
  std::vector<std::size_t> order(probs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&probs](std::size_t a, std::size_t b) { return probs[a] > probs[b]; });
  float mass = 0;
  bool full = false;
  for (const std::size_t id : order) {
    if (full) scores[id] = kOut;
    mass = to_bf16(mass + probs[id]);
    full = full || mass >= top_p;
  }
}

}  // namespace

std::vector<Mutant> numeric_mutants() {
  const std::string kind = "numeric-precision";
  const std::vector<std::string> tail = {"binomial/head_and_tail/*"};
  return {
      mutated_float(
          {"fp32-exponential-floor", "vLLM PR #43150, #34854, #37798, #41775", kind,
           "exponentials have a floor of 2^-24, so that a token 16.6 below the others never wins",
           tail},
          Order::hf, Draw::race,
          [](FloatMutation& mutation) {
            mutation.noise = [](double uniform) {
              return -std::log(std::max(-std::log(uniform), 0x1p-24));
            };
          }),
      mutated_float({"uniform-23-bit-gumbel", "JAX PR #26974, issue #30879", kind,
                     "uniforms of 23 bits: Gumbel noise ends at 15.9", tail},
                    Order::hf, Draw::race,
                    [](FloatMutation& mutation) {
                      mutation.noise = [](double uniform) {
                        // [tiny, 1), as jax.random.uniform with minval = tiny.
                        return gumbel(std::max(std::floor(uniform * 0x1p23) * 0x1p-23, 0x1p-126));
                      };
                    }),
      mutated_float({"uniform-8-bit-gumbel", "JAX issue #30879", kind,
                     "bfloat16 noise: uniforms of 8 bits", tail},
                    Order::hf, Draw::race,
                    [](FloatMutation& mutation) {
                      mutation.noise = [](double uniform) {
                        return gumbel(std::max(std::floor(uniform * 0x1p8) * 0x1p-8, 0x1p-126));
                      };
                    }),
      mutated_float({"bf16-cumsum-topp",
                     "tt-metal PR #41635",
                     kind,
                     "the running sum of top_p is a bfloat16",
                     {"mask/gaussian/v1000/edges", "mask/*/v32000/everyday"}},
                    Order::vllm_torch, Draw::inverse_cdf,
                    [](FloatMutation& mutation) { mutation.top_p = bf16_top_p; }),
      mutated_integers(
          {"draft-dtype-mismatch",
           "DeepSpec issue #31",
           kind,
           "drafts come from float32 probabilities, and are judged by those rounded to bfloat16",
           {"chain/*"}},
          [](Mutation& mutation) {
            mutation.chain = [](Chain& chain) {
              for (float& probability : chain.draft_probs) probability = to_bf16(probability);
            };
          }),
      mutated_float({"tail-eps-cutoff", "exllamav2 sampling.cpp @617d697", kind,
                     "probabilities below 1e-6 are zero", tail},
                    Order::hf, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      mutation.probabilities = [](std::vector<float>& probs) {
                        for (float& probability : probs)
                          probability = probability < 1e-6F ? 0 : probability;
                      };
                    }),
      mutated_float({"log1m-residual",
                     "vLLM PR #46665",
                     kind,
                     "the residual's correction log(1 - x) is lost for x below one ulp",
                     {"chi_squared/gaussian*/v1000/none/*"},
                     "the distribution changes by a relative 6e-8 at most: to see a "
                     "total variation of 6e-8 takes more "
                     "than 10^15 draws"},
                    Order::hf, Draw::inverse_cdf,
                    [](FloatMutation& mutation) {
                      // exp(log(1 - p)) instead of exp(log1p(-p)) for the mass beside
                      // each token.
                      mutation.probabilities = [](std::vector<float>& probs) {
                        for (float& probability : probs) {
                          if (probability <= 0 || probability >= 1) continue;
                          const float beside = std::exp(std::log(1.0F - probability));
                          const bool lost = beside == 1.0F;
                          if (lost) probability = std::nextafter(probability, 0.0F);
                        }
                      };
                    }),
      mutated_distribution({"draws-of-16-bits",
                            "systematic",
                            kind,
                            "the uniform has 16 bits",
                            {"scripted/*/v1000/*", "scripted/*"}},
                           [](Mutation& mutation) {
                             mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
                               return drawn.token_at(drawn.position(word >> 48 << 48));
                             };
                           }),
      mutated_float({"half-exponential",
                     "systematic",
                     kind,
                     "the race's exponentials have twice their rate "
                     "squared: q = E * E",
                     {"chi_squared/gaussian/v1000/top_k_50+top_p_0.9/*/n100000"}},
                    Order::hf, Draw::race,
                    [](FloatMutation& mutation) {
                      mutation.noise = [](double uniform) { return 2 * gumbel(uniform); };
                    }),
      mutated_float(
          {"float32-prefix-sum", "systematic", kind,
           "the prefix sums of the draw are float32, over the sorted row: behind a head the tail "
           "adds "
           "nothing",
           tail},
          Order::hf, Draw::inverse_cdf,
          [](FloatMutation& mutation) {
            mutation.pick = [](const std::vector<float>& probs) {
              std::vector<std::int32_t> order(probs.size());
              std::iota(order.begin(), order.end(), 0);
              std::stable_sort(
                  order.begin(), order.end(), [&probs](std::int32_t a, std::int32_t b) {
                    return probs[static_cast<std::size_t>(a)] > probs[static_cast<std::size_t>(b)];
                  });
              std::vector<float> prefix;
              float sum = 0;
              for (const std::int32_t id : order) {
                prefix.push_back(sum += probs[static_cast<std::size_t>(id)]);
              }
              return [prefix = std::move(prefix), order = std::move(order)](std::uint64_t word) {
                const auto position = static_cast<float>(static_cast<double>(word >> 40) * 0x1p-24 *
                                                         static_cast<double>(prefix.back()));
                const auto found = std::upper_bound(prefix.begin(), prefix.end() - 1, position);
                return order[static_cast<std::size_t>(found - prefix.begin())];
              };
            };
          }),
  };
}

}  // namespace fairdraw::suites
