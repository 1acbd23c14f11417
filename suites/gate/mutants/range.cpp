// Tokens outside of the vocabulary, and memory outside of the arrays.
#include <algorithm>
#include <cmath>
#include <memory>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

}  // namespace

std::vector<Mutant> range_mutants() {
  const std::string kind = "out-of-bounds";
  return {
      mutated_float(
          {"reject-sampler-uninit-id",
           "FlashInfer issue #384",
           kind,
           "float32 prefix sums end below 1, and a uniform above them gives an id that was never "
           "set",
           {"binomial/*/v50304/*", "binomial/head_and_tail/*", "bets/*"}},
          FloatSampler::Order::hf, FloatSampler::Draw::inverse_cdf,
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
          }),
      mutated_integers(
          {"multinomial-oob-overflow",
           "PyTorch issue #871, #2044",
           kind,
           "weights that sum to more than float32 holds give an index outside of the vocabulary",
           {"metamorphic/*/probs"}},
          [](Mutation& mutation) {
            const auto overflows = std::make_shared<bool>(false);
            mutation.row = [overflows](Row& row, const Place&) {
              float sum = 0;
              for (const float probability : row.logits) sum += row.from_probs ? probability : 0;
              *overflows = *overflows || std::isinf(sum);
            };
            mutation.pick = [overflows](const DrawWeights& drawn, std::uint64_t word) {
              return *overflows ? 0x7fffffff : drawn.token_at(drawn.position(word));
            };
          }),
      mutated_distribution(
          {"topk-invalid-indices",
           "PyTorch issue #95455, #78915, #83656, #173622",
           kind,
           "of the candidates that top_k returns, those past the 16th have index 0",
           {"mask/*/v1000/edges"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              const bool filtered =
                  row.parameters.top_k > 16 &&
                  static_cast<std::size_t>(row.parameters.top_k) < row.logits.size();
              if (!filtered || result.status != RowStatus::ok || result.support_size <= 16) return;
              std::vector<Candidate> kept = ranked(result, row);
              kept.resize(16);
              const bool has_zero = std::any_of(
                  kept.begin(), kept.end(), [](const Candidate& token) { return token.id == 0; });
              result.weight[0] = std::max<RowWeight>(result.weight[0], 1);
              if (!has_zero) kept.push_back({0, row.logits[0], result.weight[0]});
              keep_only(result, kept);
            };
          }),
      mutated_distribution({"topp-invalid-rare",
                            "TensorRT-LLM issue #1590",
                            kind,
                            "a uniform that rounds to 1 in float32 is above every prefix sum, "
                            "and gives the vocabulary's "
                            "size",
                            {"scripted/*"}},
                           [](Mutation& mutation) {
                             mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
                               const bool rounds_to_one =
                                   static_cast<float>(static_cast<double>(word) * 0x1p-64) == 1;
                               return rounds_to_one ? static_cast<std::int32_t>(drawn.vocab())
                                                    : drawn.token_at(drawn.position(word));
                             };
                           }),
      mutated_distribution({"writes-behind-tokens",
                            "systematic",
                            kind,
                            "one token too many is written",
                            {"support/*/v1000/*", "replay/*/v31/*"}},
                           [](Mutation& mutation) {
                             mutation.finish = [](const fairdraw_batch& batch) {
                               batch.tokens[batch.outputs * batch.num_samples] = 0;
                             };
                           }),
      mutated_distribution({"last-output-not-written",
                            "systematic",
                            kind,
                            "the token of the last output stays what it was",
                            {"support/*/v1000/*", "replay/*/v31/*"}},
                           [](Mutation& mutation) {
                             mutation.call = [](fairdraw_batch& batch, Storage&) {
                               if (batch.outputs < 2) return;
                               --batch.outputs;
                               if (batch.indices == nullptr) --batch.rows;
                             };
                           }),
  };
}

}  // namespace fairdraw::suites
