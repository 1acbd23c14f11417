// Mutants whose numbers have too few bits: in sums, in noise, or in small probabilities.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Applies top_p with a running sum in bfloat16, which no longer grows when an addend is below half
// a step.
void bf16_top_p(Scores& scores, float top_p) {
  if (top_p >= 1) return;
  const std::vector<float> probs = float_softmax(scores);
  std::vector<std::size_t> order(probs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&probs](std::size_t id) { return probs[id]; });
  float mass = 0;
  bool full = false;
  for (const std::size_t id : order) {
    if (full) scores[id] = kOut;
    mass = to_bf16(mass + probs[id]);
    full = full || mass >= top_p;
  }
}

constexpr Entry kNumeric[] = {
    {"fp32-exponential-floor", "vLLM PR #43150, #34854, #37798, #41775",
     "exponentials have a floor of 2^-24, so that a token 16.6 below the others never wins",
     [](double uniform) { return -std::log(std::max(-std::log(uniform), 0x1p-24)); }},
    {"uniform-23-bit-gumbel", "JAX PR #26974, issue #30879",
     "uniforms of 23 bits: Gumbel noise ends at 15.9",
     [](double uniform) {
       // The uniform number lies in [tiny, 1), as that of jax.random.uniform with minval = tiny.
       return gumbel(std::max(std::floor(uniform * 0x1p23) * 0x1p-23, 0x1p-126));
     }},
    {"uniform-8-bit-gumbel", "JAX issue #30879", "bfloat16 noise: uniforms of 8 bits",
     [](double uniform) {
       return gumbel(std::max(std::floor(uniform * 0x1p8) * 0x1p-8, 0x1p-126));
     }},
    {"bf16-cumsum-topp", "tt-metal PR #41635", "the running sum of top_p is a bfloat16",
     By("mask/gaussian/v1000/edges mask/*/v32000/everyday", Base::vllm_cdf), bf16_top_p},
    {"draft-dtype-mismatch", "DeepSpec issue #31",
     "drafts come from float32 probabilities, and are judged by those rounded to bfloat16",
     By("chain/*", Base::integers),
     [](Chain& chain) {
       for (float& probability : chain.draft_probs) probability = to_bf16(probability);
     }},
    {"tail-eps-cutoff", "exllamav2 sampling.cpp @617d697", "probabilities below 1e-6 are zero",
     Base::hf_cdf,
     [](std::vector<float>& probs) {
       for (float& probability : probs) probability = probability < 1e-6F ? 0 : probability;
     }},
    {"log1m-residual", "vLLM PR #46665",
     "the residual's correction log(1 - x) is lost for x below one ulp",
     By("chi_squared/gaussian*/v1000/none/*", Base::hf_cdf),
     // Computes exp(log(1 - p)) instead of exp(log1p(-p)) for the mass of all other tokens.
     [](std::vector<float>& probs) {
       for (float& probability : probs) {
         if (probability <= 0 || probability >= 1) continue;
         const bool lost = std::exp(std::log(1.0F - probability)) == 1.0F;
         if (lost) probability = std::nextafter(probability, 0.0F);
       }
     },
     "the distribution changes by a relative 6e-8 at most: to see a total variation of 6e-8 takes "
     "more than 10^15 draws"},
    {"draws-of-16-bits", "the uniform has 16 bits",
     By("scripted/*/v1000/* scripted/*", Base::distribution),
     [](const DrawWeights& drawn, std::uint64_t word) {
       return drawn.token_at(drawn.position(word >> 48 << 48));
     }},
    {"half-exponential", "the race's exponentials have twice their rate squared: q = E * E",
     By("chi_squared/gaussian/v1000/top_k_50+top_p_0.9/*/n100000"),
     [](double uniform) { return 2 * gumbel(uniform); }},
    {"float32-prefix-sum",
     "the prefix sums of the draw are float32, over the sorted row: behind a head the tail adds "
     "nothing",
     Base::hf_cdf,
     [](FloatMutation& mutation) {
       mutation.pick = [](const std::vector<float>& probs) {
         std::vector<std::int32_t> order(probs.size());
         std::iota(order.begin(), order.end(), 0);
         const auto probability = [&probs](std::int32_t id) {
           return probs[static_cast<std::size_t>(id)];
         };
         std::ranges::stable_sort(order, std::greater<>(), probability);
         std::vector<float> prefix;
         float sum = 0;
         for (const std::int32_t id : order) prefix.push_back(sum += probability(id));
         return [prefix = std::move(prefix), order = std::move(order)](std::uint64_t word) {
           const auto position = static_cast<float>(static_cast<double>(word >> 40) * 0x1p-24 *
                                                    static_cast<double>(prefix.back()));
           const auto found = std::upper_bound(prefix.begin(), prefix.end() - 1, position);
           return order[static_cast<std::size_t>(found - prefix.begin())];
         };
       };
     }},
};

// Mutants of weights by tiles (reference/integer_model.h), in which one step of the arithmetic is
// wrong. In samplers that take random words, words at the ends of intervals reveal all of these
// bugs. In other samplers, only one bug is too small for the gate's rows: a tile 48 octaves below
// the maximum is dropped. The kernels' known answers have such tiles.
//
// No mutant takes a tile's octave from the tokens that filters keep, because that would be right:
// filters keep the front of the ranking, so that a tile with a survivor keeps its largest token.

using reference::TokenOctaves;

// Calls `weigh(id, octaves)` for each token that has a number of octaves, banned or not.
template <typename Weigh>
void for_each_token(const Row& row, Weigh weigh) {
  const float temperature = row.parameters.temperature == 0 ? 1 : row.parameters.temperature;
  const float scale = reference::octaves_per_logit(temperature);
  for (std::size_t id = 0; id < row.logits.size(); ++id) {
    const float value = row.logits[id];
    if (row.from_probs ? value <= 0 : std::isinf(value)) continue;
    weigh(id, row.from_probs ? reference::octaves_of_prob(value)
                             : reference::octaves_of_logit(value, scale));
  }
}

void wrap_shifts_at_64(Result& result, const Row& row) {
  for_each_token(row, [&](std::size_t id, const TokenOctaves& token) {
    if (!is_allowed(row, id)) return;
    const double tile = result.tiles[id / reference::kIdsOfATile].octave;
    const TokenOctaves wrapped{tile - std::fmod(tile - token.whole, 64), token.significand};
    result.weight[id] =
        reference::weight_in_row(reference::weight_in_tile(wrapped, tile), tile, result.octave);
  });
}

// Makes the mutation change weights but not masks. Rows with processing and greedy rows are not
// mutated, because no token is weighed there.
void change_weights_alone(Mutation& mutation) {
  if (!mutation.result) return;
  mutation.result = [change = mutation.result](Result& result, const Row& row, const Place& place) {
    if (result.status != RowStatus::ok || result.greedy_token >= 0 || row.processing) return;
    change(result, row, place);
    result.total = result.total_unfiltered = 0;
    for (std::size_t id = 0; id < result.weight.size(); ++id) {
      result.total_unfiltered += result.weight[id];
      if (result.mask[id] != 0) result.total += result.weight[id];
    }
  };
}

constexpr Entry kTileWeights[] = {
    {"weights-relative-to-the-row", "weights are cut at 2^-39 of the row's largest, not by tiles",
     [](Result& result, const Row&) {
       for (std::size_t id = 0; id < result.weight.size(); ++id) {
         result.weight[id] = result.speculation_weight[id];
       }
     }},
    {"banned-tokens-set-octaves",
     "octaves of tiles and of the row are of all tokens, banned ones included",
     By("scripted/gaussian/v32000/none/t0.03/banned tokens/gaussian_wide/v1000/*/banned"),
     [](Result& result, const Row& row) {
       std::vector<double> octave(result.tiles.size(), -std::numeric_limits<double>::infinity());
       double largest = octave.front();
       for_each_token(row, [&](std::size_t id, const TokenOctaves& token) {
         double& tile = octave[id / reference::kIdsOfATile];
         tile = std::max(tile, token.whole);
         largest = std::max(largest, token.whole);
       });
       for_each_token(row, [&](std::size_t id, const TokenOctaves& token) {
         if (!is_allowed(row, id)) return;
         const double tile = octave[id / reference::kIdsOfATile];
         result.weight[id] =
             reference::weight_in_row(reference::weight_in_tile(token, tile), tile, largest);
       });
     }},
    {"tiles-48-below-dropped",
     "a tile counts nothing from 48 octaves below the row's largest, not from 49",
     By("scripted/gaussian/v32000/none/t0.03"),
     [](Result& result, const Row&) {
       for (std::size_t id = 0; id < result.weight.size(); ++id) {
         const double gap = result.octave - result.tiles[id / reference::kIdsOfATile].octave;
         if (gap == 48) result.weight[id] = 0;
       }
     }},
    {"shift-wraps-at-64",
     "a token 64 octaves below its tile's largest is shifted by none, one of 65 by one",
     By("scripted/gaussian/v32000/none/t0.03 tokens/huge_range/*/edges"), wrap_shifts_at_64},
    {"bonus-by-tiles", "a chain's bonus is drawn by tiles, and not by its weights in speculation",
     By("chain/head_and_tail/v64/none/t1 chain/*"),
     [](Mutation& mutation) {
       mutation.chain_accepted = [](reference::ChainOutcome& outcome, const Chain& chain) {
         const std::size_t n = chain.draft_tokens.size();
         if (outcome.status != RowStatus::ok) return;
         if (outcome.emitted != static_cast<std::int32_t>(n)) return;
         const auto target = std::span(chain.target_probs).subspan(n * chain.vocab);
         outcome.tokens[n] =
             reference::integer_model_from_probs(target, {}).token_for(chain.bonus_word);
       };
     }},
};

}  // namespace

std::vector<Mutant> numeric_mutants() {
  return mutants_of("numeric-precision", "binomial/head_and_tail/*", Base::hf_race, kNumeric);
}

std::vector<Mutant> tile_weight_mutants() {
  return mutants_of("numeric-precision",
                    "scripted/gaussian/v32000/none/t0.03 probabilities/gaussian_wide/v1000/edges",
                    Base::integers, kTileWeights, change_weights_alone);
}

}  // namespace fairdraw::suites
