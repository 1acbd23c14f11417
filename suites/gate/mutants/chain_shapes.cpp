// Chains of other sizes and types than the usual ones, and what a verifier does beside its tokens.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

const std::string kChainShapes = "chain-shapes";
const std::vector<std::string> kChain = {"chain/*"};

Mutant of_chain(MutantText text, void (*change)(Chain&)) {
  return mutated_integers(std::move(text),
                          [change](Mutation& mutation) { mutation.chain = change; });
}

}  // namespace

std::vector<Mutant> chain_shape_mutants() {
  return {
      of_chain({"chain-stops-at-8", "systematic", kChainShapes,
                "drafted tokens behind the eighth are accepted without a test", kChain},
               [](Chain& chain) {
                 for (std::size_t i = 8; i < chain.accept_words.size(); ++i) {
                   chain.accept_words[i] = 0;
                 }
               }),
      of_chain({"chain-positions-in-4-bits", "systematic", kChainShapes,
                "position 16 has the random words of position 0", kChain},
               [](Chain& chain) {
                 for (std::size_t i = 16; i < chain.accept_words.size(); ++i) {
                   chain.accept_words[i] = chain.accept_words[i % 16];
                 }
               }),
      of_chain({"chain-vector-tail-lost", "systematic", kChainShapes,
                "ids behind the last whole vector of four have no mass in rows of more "
                "than 1024",
                kChain},
               [](Chain& chain) {
                 const std::size_t lost = chain.vocab > 1024 ? chain.vocab % 4 : 0;
                 for (std::size_t row = 0; row <= chain.draft_tokens.size(); ++row) {
                   float* const end = chain.target_row(row) + chain.vocab;
                   const float kept = *std::max_element(chain.target_row(row), end - lost);
                   if (lost > 0 && kept > 0) std::fill(end - lost, end, 0.0F);
                 }
               }),
      of_chain({"chain-ids-in-16-bits", "systematic", kChainShapes,
                "drafted tokens are stored in 16 bits", kChain},
               [](Chain& chain) {
                 for (std::int32_t& token : chain.draft_tokens) {
                   if (token >= 0 && static_cast<std::size_t>(token) < chain.vocab) {
                     token &= 0xffff;
                   }
                 }
               }),
      mutated_integers({"chain-number-in-16-bits", "systematic", kChainShapes,
                        "chain 65536 has the drafted tokens of chain 0", kChain},
                       [](Mutation& mutation) {
                         mutation.chain_call = [](fairdraw_chain& call, Storage& storage) {
                           const auto n = static_cast<std::size_t>(call.num_draft_tokens);
                           const auto batch = static_cast<std::size_t>(call.batch);
                           if (batch <= 65536 || n == 0) return;
                           std::vector<std::int32_t> tokens(call.draft_tokens,
                                                            call.draft_tokens + batch * n);
                           for (std::size_t i = 65536 * n; i < tokens.size(); ++i)
                             tokens[i] = tokens[i - 65536 * n];
                           call.draft_tokens = storage.keep(std::move(tokens));
                         };
                       }),
      mutated_integers({"chain-bf16-read-as-float16", "DeepSpec issue #31", kChainShapes,
                        "probabilities in bfloat16 are read as float16", kChain},
                       [](Mutation& mutation) {
                         mutation.chain_call = [](fairdraw_chain& call, Storage&) {
                           if (call.dtype == 2) call.dtype = 1;
                         };
                       }),
      mutated_integers({"chain-float16-refused-rows", "systematic", kChainShapes,
                        "bonus rows in float16 are read one id too far", kChain},
                       [](Mutation& mutation) {
                         const auto half = std::make_shared<bool>(false);
                         mutation.chain_call = [half](fairdraw_chain& call, Storage&) {
                           *half = call.dtype == 1;
                         };
                         mutation.chain = [half](Chain& chain) {
                           float* const bonus = chain.target_row(chain.draft_tokens.size());
                           if (*half) std::rotate(bonus, bonus + 1, bonus + chain.vocab);
                         };
                       }),
      mutated_integers(
          {"chain-counts-decide", "FlashInfer PR #450", kChainShapes,
           "where the counts of accepted tokens are not asked for, nothing is accepted", kChain},
          [](Mutation& mutation) {
            const auto without = std::make_shared<bool>(false);
            mutation.chain_call = [without](fairdraw_chain& call, Storage&) {
              *without = call.accepted == nullptr;
            };
            mutation.chain = [without](Chain& chain) {
              if (*without) std::fill(chain.accept_words.begin(), chain.accept_words.end(), ~0ULL);
            };
          }),
      mutated_integers(
          {"chain-target-zeroed-in-place", "vllm-ascend PR #2881", kChainShapes,
           "the drafted token's probability is set to 0 in the caller's rows of the target",
           kChain},
          [](Mutation& mutation) {
            mutation.chain_call = [](fairdraw_chain& call, Storage& storage) {
              if (call.dtype != 0) return;
              const auto n = static_cast<std::size_t>(call.num_draft_tokens);
              const auto batch = static_cast<std::size_t>(call.batch);
              const auto vocab = static_cast<std::size_t>(call.vocab);
              auto* const rows = const_cast<float*>(static_cast<const float*>(call.target_probs));
              // This call still sees what it was given.
              call.target_probs =
                  storage.keep(std::vector<float>(rows, rows + batch * (n + 1) * vocab));
              for (std::size_t b = 0; b < batch; ++b) {
                for (std::size_t i = 0; i < n; ++i) {
                  const std::int32_t token = call.draft_tokens[b * n + i];
                  if (token < 0 || static_cast<std::size_t>(token) >= vocab) continue;
                  rows[(b * (n + 1) + i) * vocab + static_cast<std::size_t>(token)] = 0;
                }
              }
            };
          }),
      of_chain({"chain-bonus-shares-recovery", "vLLM #54282", kChainShapes,
                "the bonus token is drawn with the recovery word of the last position", kChain},
               [](Chain& chain) {
                 if (!chain.recover_words.empty()) {
                   chain.bonus_word = chain.recover_words.back();
                 }
               }),
      of_chain({"chain-recovers-by-argmax", "mlx-swift-lm PR #459", kChainShapes,
                "a rejected token is replaced by the first that the residual holds", kChain},
               [](Chain& chain) {
                 std::fill(chain.recover_words.begin(), chain.recover_words.end(), 0);
               }),
      mutated_distribution({"chains-with-one-seed-share",
                            "vLLM #50440",
                            kChainShapes,
                            "with one seed for the call, all chains draw with the words of chain 0",
                            {"chain_law/*"}},
                           [](Mutation& mutation) {
                             mutation.chain_word = [](std::uint64_t seed, std::uint64_t offset,
                                                      Purpose purpose, std::uint32_t) {
                               return harness::random_word(seed, offset, purpose, 0);
                             };
                           }),
      mutated_distribution(
          {"chain-accepts-at-half",
           "HF transformers PR #28508",
           kChainShapes,
           "a draft is accepted where its ratio is above 1/2, whatever the uniform",
           {"chain_law/*"}},
          [](Mutation& mutation) {
            mutation.chain = [](Chain& chain) {
              for (std::uint64_t& word : chain.accept_words) word = 1ULL << 63;
            };
          }),
  };
}

}  // namespace fairdraw::suites
