// Mutants with right masks but wrong probabilities.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Draws the samples of one output without replacement, and begins again when all survivors have
// been drawn.
void deal_samples(const fairdraw_batch& batch, std::int64_t output, const RowWeights& prefix) {
  std::vector<std::int32_t> survivors;
  for (std::size_t id = 0; id < prefix.size(); ++id) {
    if (prefix[id] > (id == 0 ? 0 : prefix[id - 1])) {
      survivors.push_back(static_cast<std::int32_t>(id));
    }
  }
  std::int32_t* const tokens = batch.tokens + output * batch.num_samples;
  const std::uint64_t seed = batch.seed[batch.seed_is_scalar != 0 ? 0 : output];
  std::uint64_t index = 0;
  for (std::size_t at = 0; at < static_cast<std::size_t>(batch.num_samples);) {
    for (std::size_t i = survivors.size(); i > 1; --i) {
      std::swap(survivors[i - 1], survivors[harness::mixed(seed, index++) % i]);
    }
    for (std::size_t i = 0;
         i < survivors.size() && at < static_cast<std::size_t>(batch.num_samples); ++i) {
      tokens[at++] = survivors[i];
    }
  }
}

constexpr Entry kDistribution[] = {
    {"gumbel-truncated-uniform", "candle sampling.rs @40f1e7b, PR #2894",
     "uniforms from [1e-7, 0.999): Gumbel noise ends at 6.91 and unlikely tokens never win",
     By("binomial/head_and_tail/* chi_squared/gaussian_wide/v1000/none/*", Base::hf_race),
     [](double uniform) { return gumbel(1e-7 + uniform * (0.999 - 1e-7)); }},
    {"n-samples-without-replacement", "vLLM PR #858, issue #819",
     "the samples of one output are drawn without replacement",
     [](Mutation& mutation) {
       const auto prefix = std::make_shared<RowWeights>();
       mutation.pick = [prefix](const DrawWeights& drawn, std::uint64_t word) {
         *prefix = drawn.prefix;
         return token_of(drawn, word);
       };
       mutation.finish = [prefix](const fairdraw_batch& batch) {
         if (batch.num_samples < 2 || batch.outputs != 1 || batch.tokens[0] < 0) return;
         deal_samples(batch, 0, *prefix);
       };
     }},
    {"gumbel-sign", "chainerrl PR #104", "the Gumbel noise is subtracted",
     By("chi_squared/gaussian/v1000/top_k_50+top_p_0.9/*/n100000", Base::hf_race),
     // The function is -g(1 - u), where g(u) is the Gumbel noise. The function has the same
     // distribution as -g(u), and it increases with u, as the race requires.
     [](double uniform) { return std::log(-std::log1p(-uniform)); }},
    {"prefix-scan-wrong", "ROCm aiter PR #2035",
     "the prefix sum carries nothing into every second block of 1024",
     By("bets/*/v32000/* bets/*/v50304/* binomial/*/v32000/*"),
     [](Mutation& mutation) {
       struct Memory {
         RowWeights of, running_max;
       };
       const auto memory = std::make_shared<Memory>();
       mutation.pick = [memory](const DrawWeights& drawn, std::uint64_t word) {
         if (memory->of != drawn.prefix) {  // once per row
           memory->of = memory->running_max = drawn.prefix;
           for (std::size_t id = 1024; id < drawn.prefix.size(); ++id) {
             const std::size_t block = id / 1024;
             if (block % 2 == 1) memory->running_max[id] -= drawn.prefix[block * 1024 - 1];
           }
           // The prefix sums are replaced by their running maximum, so that the first prefix that
           // exceeds the position is found.
           for (std::size_t id = 1; id < drawn.prefix.size(); ++id) {
             memory->running_max[id] =
                 std::max(memory->running_max[id], memory->running_max[id - 1]);
           }
         }
         const auto found = std::upper_bound(memory->running_max.begin(), memory->running_max.end(),
                                             drawn.position(word));
         return static_cast<std::int32_t>(
             std::min<std::int64_t>(found - memory->running_max.begin(), drawn.vocab() - 1));
       };
     }},
    {"softmax-before-topk-no-renorm", "onnxruntime-genai PR #1371",
     "top_p is measured on the softmax of the whole row, top_k left out",
     By("mask/*/v32000/everyday"), [](Row& row) { row.filter_order = FilterOrder::joint; }},
    {"dist-without-softmax", "gpt4all PR #3202; tt-metal PR #23527",
     "without a filter that happens to compute them, probabilities of candidates past the 20th are "
     "those of the row before, or zero",
     [](Mutation& mutation) {
       const auto before = std::make_shared<RowWeights>();
       mutation.weights = [before](RowWeights& weights, const Result& row) {
         const RowWeights now = weights;
         const bool filtered = row.total != row.total_unfiltered;
         if (!filtered && weights.size() > 20) {
           RowWeights sorted = weights;
           std::nth_element(sorted.begin(), sorted.begin() + 19, sorted.end(), std::greater<>());
           before->resize(weights.size());
           for (std::size_t id = 0; id < weights.size(); ++id) {
             if (weights[id] < sorted[19]) weights[id] = (*before)[id];
           }
         }
         *before = now;
       };
     }},
};

}  // namespace

std::vector<Mutant> distribution_mutants() {
  return mutants_of("distribution",
                    "binomial/gaussian/v1000/none/* chi_squared/gaussian*/v1000/none/*",
                    Base::distribution, kDistribution);
}

}  // namespace fairdraw::suites
