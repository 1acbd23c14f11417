// Mutants that give tokens outside the vocabulary, or access memory outside the arrays.
#include <algorithm>
#include <cmath>
#include <memory>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

constexpr Entry kRange[] = {
    {"reject-sampler-uninit-id", "FlashInfer issue #384",
     "float32 prefix sums end below 1, and a uniform above them gives an id that was never set",
     By("binomial/*/v50304/* binomial/head_and_tail/* bets/*", Base::hf_cdf),
     [](FloatMutation& mutation) {
       mutation.pick = [](const std::vector<float>& probs) {
         auto prefix = std::make_shared<std::vector<float>>();
         float sum = 0;
         for (const float probability : probs) prefix->push_back(sum += probability);
         return [prefix](std::uint64_t word) {
           const auto uniform = static_cast<float>(static_cast<double>(word >> 40) * 0x1p-24);
           const auto found = std::upper_bound(prefix->begin(), prefix->end(), uniform);
           return found == prefix->end() ? 1061800448
                                         : static_cast<std::int32_t>(found - prefix->begin());
         };
       };
     }},
    {"multinomial-oob-overflow", "PyTorch issue #871, #2044",
     "weights that sum to more than float32 holds give an index outside of the vocabulary",
     By("metamorphic/*/probs", Base::integers),
     [](Mutation& mutation) {
       const auto overflows = std::make_shared<bool>(false);
       mutation.row = [overflows](Row& row, const Place&) {
         float sum = 0;
         for (const float probability : row.logits) sum += row.from_probs ? probability : 0;
         *overflows = *overflows || std::isinf(sum);
       };
       mutation.pick = [overflows](const DrawWeights& drawn, std::uint64_t word) {
         return *overflows ? 0x7fffffff : token_of(drawn, word);
       };
     }},
    {"topk-invalid-indices", "PyTorch issue #95455, #78915, #83656, #173622",
     "of the candidates that top_k returns, those past the 16th have index 0",
     By("mask/*/v1000/edges"),
     [](Result& result, const Row& row) {
       const bool filtered = row.parameters.top_k > 16 &&
                             static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
       if (!filtered || result.status != RowStatus::ok || result.support_size <= 16) return;
       std::vector<Candidate> kept = ranked(result, row);
       kept.resize(16);
       const bool has_zero =
           std::ranges::any_of(kept, [](const Candidate& token) { return token.id == 0; });
       result.weight[0] = std::max<RowWeight>(result.weight[0], 1);
       if (!has_zero) kept.push_back({0, row.logits[0], result.weight[0]});
       keep_only(result, kept);
     }},
    {"topp-invalid-rare", "TensorRT-LLM issue #1590",
     "a uniform that rounds to 1 in float32 is above every prefix sum, and gives the vocabulary's "
     "size",
     By("scripted/*"),
     [](const DrawWeights& drawn, std::uint64_t word) {
       const bool rounds_to_one = static_cast<float>(static_cast<double>(word) * 0x1p-64) == 1;
       return rounds_to_one ? static_cast<std::int32_t>(drawn.vocab()) : token_of(drawn, word);
     }},
    {"writes-behind-tokens", "one token too many is written",
     [](const fairdraw_batch& batch) { batch.tokens[batch.outputs * batch.num_samples] = 0; }},
    {"last-output-not-written", "the token of the last output stays what it was",
     [](fairdraw_batch& batch) {
       if (batch.outputs < 2) return;
       --batch.outputs;
       if (batch.indices == nullptr) --batch.rows;
     }},
};

}  // namespace

std::vector<Mutant> range_mutants() {
  return mutants_of("out-of-bounds", "support/*/v1000/* replay/*/v31/*", Base::distribution,
                    kRange);
}

}  // namespace fairdraw::suites
