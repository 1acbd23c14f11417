// Mutants of chain speculative sampling: wrong acceptance, wrong replacement tokens, chains of
// unusual sizes and types, and side effects of the verification.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Puts the whole mass of a row on one token.
void make_certain(float* row, std::size_t vocab, std::int32_t token) {
  std::fill(row, row + vocab, 0.0F);
  row[token] = 1;
}

constexpr Entry kChains[] = {
    {"greedy-draft-softmax-q", "HF transformers issue #32867; jaymody/speculative-sampling #3",
     "the largest draft probability is judged in place of the drafted token",
     [](Chain& chain, std::size_t i) {
       const float* const row = chain.draft_row(i);
       chain.draft_tokens[i] =
           static_cast<std::int32_t>(std::max_element(row, row + chain.vocab) - row);
     }},
    {"q-not-the-sampled-one", "HF transformers issue #47932, PR #47961",
     "the ratio takes a draft distribution that is flatter than the one drafted from",
     [](Chain& chain, std::size_t i) {
       float* const row = chain.draft_row(i);
       for (std::size_t id = 0; id < chain.vocab; ++id) row[id] = std::sqrt(row[id]);
     }},
    {"target-without-params", "vLLM #9834, PR #10198; MLC-LLM PR #2940",
     "the target's distribution is taken before its filters: what they excluded has mass again",
     [](Chain& chain, std::size_t i) {
       float* const row = chain.target_row(i);
       const float largest = *std::max_element(row, row + chain.vocab);
       if (!(largest > 0)) return;
       for (std::size_t id = 0; id < chain.vocab; ++id) {
         if (row[id] >= 0) row[id] = std::max(row[id], largest / 8);
       }
     }},
    {"eagle-ignores-q", "EAGLE issue #329, #283, #183",
     "a draft is accepted with probability p, and the residual is p without it",
     [](Chain& chain, std::size_t i) {
       make_certain(chain.draft_row(i), chain.vocab, chain.draft_tokens[i]);
     }},
    {"always-accept", "vllm-ascend issue #13730, PR #13766",
     "the uniform of the acceptance test is 0",
     [](Chain& chain, std::size_t i) { chain.accept_words[i] = 0; }},
    {"zero-coin-accepts-impossible", "SGLang issue #35771",
     "a coin of 0 (in float32) accepts a draft that the target excludes",
     [](Chain& chain, std::size_t i) {
       const bool zero = chain.accept_words[i] >> 40 == 0;
       if (zero) make_certain(chain.target_row(i), chain.vocab, chain.draft_tokens[i]);
     }},
    {"shard-local-argmax-draft", "TensorRT-LLM PR #16440",
     "greedy rows look at the first of two shards of the vocabulary",
     By("mask/*/v1000/edges", Base::distribution),
     [](Row& row) {
       if (row.parameters.temperature != 0 || row.logits.size() < 2) return;
       std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>((row.logits.size() + 1) / 2),
                 row.logits.end(), -INFINITY);
     }},
    {"max-seqs-corruption", "1Cat-vLLM issue #656",
     "request r reads the draft distribution of request r modulo 2",
     [](fairdraw_chain& call, Storage& storage) {
       if (call.dtype != 0) return;
       const auto of_request = static_cast<std::size_t>(call.num_draft_tokens * call.vocab);
       const auto* const from = static_cast<const float*>(call.draft_probs);
       std::vector<float> mixed_up;
       for (std::size_t b = 0; b < static_cast<std::size_t>(call.batch); ++b) {
         const float* const first = from + b % 2 * of_request;
         mixed_up.insert(mixed_up.end(), first, first + of_request);
       }
       call.draft_probs = storage.keep(std::move(mixed_up));
     }},
    {"bonus-from-last-draft-row",
     "the bonus token comes from the target row of the last drafted position",
     [](Chain& chain) {
       const std::size_t n = chain.draft_tokens.size();
       if (n == 0) return;
       std::copy_n(chain.target_row(n - 1), chain.vocab, chain.target_row(n));
     }},
    {"chain-offset-not-advanced", "all positions of a chain use the words of the first",
     [](Chain& chain) {
       for (auto* const words : {&chain.accept_words, &chain.recover_words}) {
         for (std::uint64_t& word : *words) word = words->front();
       }
     }},
    {"residual-is-target-without-draft",
     "a rejected draft is replaced by a draw from the target without it, q left out",
     [](Chain& chain, std::size_t i) {
       // The probabilities q of all tokens except the drafted one become proportional to the
       // target, so that the residual does, too. The mass and the acceptance of the drafted token
       // do not change.
       const std::int32_t token = chain.draft_tokens[i];
       float* const row = chain.draft_row(i);
       double others = 0;
       for (std::size_t id = 0; id < chain.vocab; ++id) others += static_cast<double>(row[id]);
       const float* const target = chain.target_row(i);
       others -= static_cast<double>(row[token]);
       double target_others = -static_cast<double>(target[token]);
       for (std::size_t id = 0; id < chain.vocab; ++id) {
         target_others += static_cast<double>(target[id]);
       }
       if (!(target_others > 0) || !(others > 0)) return;
       for (std::size_t id = 0; id < chain.vocab; ++id) {
         if (static_cast<std::int32_t>(id) == token) continue;
         row[id] = static_cast<float>(static_cast<double>(target[id]) * others / target_others);
       }
     }},
};

constexpr Entry kChainShapes[] = {
    {"chain-stops-at-8", "drafted tokens behind the eighth are accepted without a test",
     [](Chain& chain) {
       for (std::size_t i = 8; i < chain.accept_words.size(); ++i) chain.accept_words[i] = 0;
     }},
    {"chain-positions-in-4-bits", "position 16 has the random words of position 0",
     [](Chain& chain) {
       for (std::size_t i = 16; i < chain.accept_words.size(); ++i) {
         chain.accept_words[i] = chain.accept_words[i % 16];
       }
     }},
    {"chain-vector-tail-lost",
     "ids behind the last whole vector of four have no mass in rows of more than 1024",
     [](Chain& chain) {
       const std::size_t lost = chain.vocab > 1024 ? chain.vocab % 4 : 0;
       for (std::size_t row = 0; row <= chain.draft_tokens.size(); ++row) {
         float* const end = chain.target_row(row) + chain.vocab;
         const float kept = *std::max_element(chain.target_row(row), end - lost);
         if (lost > 0 && kept > 0) std::fill(end - lost, end, 0.0F);
       }
     }},
    {"chain-ids-in-16-bits", "drafted tokens are stored in 16 bits",
     [](Chain& chain) {
       for (std::int32_t& token : chain.draft_tokens) {
         if (token >= 0 && static_cast<std::size_t>(token) < chain.vocab) token &= 0xffff;
       }
     }},
    {"chain-number-in-16-bits", "chain 65536 has the drafted tokens of chain 0",
     [](fairdraw_chain& call, Storage& storage) {
       const auto n = static_cast<std::size_t>(call.num_draft_tokens);
       const auto batch = static_cast<std::size_t>(call.batch);
       if (batch <= 65536 || n == 0) return;
       std::vector<std::int32_t> tokens(call.draft_tokens, call.draft_tokens + batch * n);
       for (std::size_t i = 65536 * n; i < tokens.size(); ++i) tokens[i] = tokens[i - 65536 * n];
       call.draft_tokens = storage.keep(std::move(tokens));
     }},
    {"chain-bf16-read-as-float16", "DeepSpec issue #31",
     "probabilities in bfloat16 are read as float16",
     [](fairdraw_chain& call, Storage&) {
       if (call.dtype == 2) call.dtype = 1;
     }},
    {"chain-float16-refused-rows", "bonus rows in float16 are read one id too far",
     [](Mutation& mutation) {
       const auto half = std::make_shared<bool>(false);
       mutation.chain_call = [half](fairdraw_chain& call, Storage&) { *half = call.dtype == 1; };
       mutation.chain = [half](Chain& chain) {
         float* const bonus = chain.target_row(chain.draft_tokens.size());
         if (*half) std::rotate(bonus, bonus + 1, bonus + chain.vocab);
       };
     }},
    {"chain-counts-decide", "FlashInfer PR #450",
     "where the counts of accepted tokens are not asked for, nothing is accepted",
     [](Mutation& mutation) {
       const auto without = std::make_shared<bool>(false);
       mutation.chain_call = [without](fairdraw_chain& call, Storage&) {
         *without = call.accepted == nullptr;
       };
       mutation.chain = [without](Chain& chain) {
         if (*without) std::ranges::fill(chain.accept_words, ~0ULL);
       };
     }},
    {"chain-target-zeroed-in-place", "vllm-ascend PR #2881",
     "the drafted token's probability is set to 0 in the caller's rows of the target",
     [](fairdraw_chain& call, Storage& storage) {
       if (call.dtype != 0) return;
       const auto n = static_cast<std::size_t>(call.num_draft_tokens);
       const auto batch = static_cast<std::size_t>(call.batch);
       const auto vocab = static_cast<std::size_t>(call.vocab);
       auto* const rows = const_cast<float*>(static_cast<const float*>(call.target_probs));
       // The current call still reads its original input.
       call.target_probs = storage.keep(std::vector<float>(rows, rows + batch * (n + 1) * vocab));
       for (std::size_t b = 0; b < batch; ++b) {
         for (std::size_t i = 0; i < n; ++i) {
           const std::int32_t token = call.draft_tokens[b * n + i];
           if (token < 0 || static_cast<std::size_t>(token) >= vocab) continue;
           rows[(b * (n + 1) + i) * vocab + static_cast<std::size_t>(token)] = 0;
         }
       }
     }},
    {"chain-bonus-shares-recovery", "vLLM #54282",
     "the bonus token is drawn with the recovery word of the last position",
     [](Chain& chain) {
       if (!chain.recover_words.empty()) chain.bonus_word = chain.recover_words.back();
     }},
    {"chain-recovers-by-argmax", "mlx-swift-lm PR #459",
     "a rejected token is replaced by the first that the residual holds",
     [](Chain& chain) { std::ranges::fill(chain.recover_words, 0U); }},
    {"chains-with-one-seed-share", "vLLM #50440",
     "with one seed for the call, all chains draw with the words of chain 0",
     By("chain_law/*", Base::distribution),
     [](Mutation& mutation) {
       mutation.chain_word = [](std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                std::uint32_t) {
         return harness::random_word(seed, offset, purpose, 0);
       };
     }},
    {"chain-accepts-at-half", "HF transformers PR #28508",
     "a draft is accepted where its ratio is above 1/2, whatever the uniform",
     By("chain_law/*", Base::distribution),
     [](Chain& chain) {
       for (std::uint64_t& word : chain.accept_words) word = 1ULL << 63;
     }},
};

}  // namespace

std::vector<Mutant> chain_mutants() {
  return mutants_of("speculative", "chain/*", Base::integers, kChains);
}

std::vector<Mutant> chain_shape_mutants() {
  return mutants_of("chain-shapes", "chain/*", Base::integers, kChainShapes);
}

}  // namespace fairdraw::suites
