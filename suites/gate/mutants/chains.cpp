// Chain speculative sampling: what is accepted, and what is drawn instead.
#include <algorithm>
#include <cmath>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

// Puts all of a row's mass on one token.
void make_certain(float* row, std::size_t vocab, std::int32_t token) {
  std::fill(row, row + vocab, 0.0F);
  row[token] = 1;
}

bool is_token(const Chain& chain, std::int32_t token) {
  return token >= 0 && static_cast<std::size_t>(token) < chain.vocab;
}

// A mutant of one chain, and of each position of it.
Mutant of_positions(MutantText text, void (*change)(Chain&, std::size_t position)) {
  return mutated_integers(std::move(text), [change](Mutation& mutation) {
    mutation.chain = [change](Chain& chain) {
      for (std::size_t i = 0; i < chain.draft_tokens.size(); ++i) {
        if (is_token(chain, chain.draft_tokens[i])) change(chain, i);
      }
    };
  });
}

}  // namespace

std::vector<Mutant> chain_mutants() {
  const std::string kind = "speculative";
  const std::vector<std::string> chain = {"chain/*"};
  return {
      of_positions({"greedy-draft-softmax-q",
                    "HF transformers issue #32867; jaymody/speculative-sampling #3", kind,
                    "the largest draft probability is judged in place of the drafted token", chain},
                   [](Chain& mutated, std::size_t i) {
                     const float* const row = mutated.draft_row(i);
                     mutated.draft_tokens[i] = static_cast<std::int32_t>(
                         std::max_element(row, row + mutated.vocab) - row);
                   }),
      of_positions(
          {"q-not-the-sampled-one", "HF transformers issue #47932, PR #47961", kind,
           "the ratio takes a draft distribution that is flatter than the one drafted from", chain},
          [](Chain& mutated, std::size_t i) {
            float* const row = mutated.draft_row(i);
            for (std::size_t id = 0; id < mutated.vocab; ++id) row[id] = std::sqrt(row[id]);
          }),
      of_positions({"target-without-params", "vLLM #9834, PR #10198; MLC-LLM PR #2940", kind,
                    "the target's distribution is taken before its filters: what they excluded has "
                    "mass again",
                    chain},
                   [](Chain& mutated, std::size_t i) {
                     float* const row = mutated.target_row(i);
                     const float largest = *std::max_element(row, row + mutated.vocab);
                     if (!(largest > 0)) return;
                     for (std::size_t id = 0; id < mutated.vocab; ++id) {
                       if (row[id] >= 0) row[id] = std::max(row[id], largest / 8);
                     }
                   }),
      of_positions(
          {"eagle-ignores-q", "EAGLE issue #329, #283, #183", kind,
           "a draft is accepted with probability p, and the residual is p without it", chain},
          [](Chain& mutated, std::size_t i) {
            make_certain(mutated.draft_row(i), mutated.vocab, mutated.draft_tokens[i]);
          }),
      of_positions({"always-accept", "vllm-ascend issue #13730, PR #13766", kind,
                    "the uniform of the acceptance test is 0", chain},
                   [](Chain& mutated, std::size_t i) { mutated.accept_words[i] = 0; }),
      of_positions({"zero-coin-accepts-impossible", "SGLang issue #35771", kind,
                    "a coin of 0 (in float32) accepts a draft that the target excludes", chain},
                   [](Chain& mutated, std::size_t i) {
                     const bool zero = mutated.accept_words[i] >> 40 == 0;
                     if (zero)
                       make_certain(mutated.target_row(i), mutated.vocab, mutated.draft_tokens[i]);
                   }),
      mutated_distribution({"shard-local-argmax-draft",
                            "TensorRT-LLM PR #16440",
                            kind,
                            "greedy rows look at the first of two shards of the vocabulary",
                            {"mask/*/v1000/edges"}},
                           [](Mutation& mutation) {
                             mutation.row = [](MutatedModel::Row& row, const Place&) {
                               if (row.parameters.temperature != 0 || row.logits.size() < 2) return;
                               std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>(
                                                                  (row.logits.size() + 1) / 2),
                                         row.logits.end(), -INFINITY);
                             };
                           }),
      mutated_integers({"max-seqs-corruption", "1Cat-vLLM issue #656", kind,
                        "request r reads the draft distribution of request r modulo 2", chain},
                       [](Mutation& mutation) {
                         mutation.chain_call = [](fairdraw_chain& call, Storage& storage) {
                           if (call.dtype != 0) return;
                           const auto of_request =
                               static_cast<std::size_t>(call.num_draft_tokens * call.vocab);
                           const auto* const from = static_cast<const float*>(call.draft_probs);
                           std::vector<float> mixed_up;
                           for (std::size_t b = 0; b < static_cast<std::size_t>(call.batch); ++b) {
                             const float* const first = from + b % 2 * of_request;
                             mixed_up.insert(mixed_up.end(), first, first + of_request);
                           }
                           call.draft_probs = storage.keep(std::move(mixed_up));
                         };
                       }),
      mutated_integers(
          {"bonus-from-last-draft-row", "systematic", kind,
           "the bonus token comes from the target row of the last drafted position", chain},
          [](Mutation& mutation) {
            mutation.chain = [](Chain& mutated) {
              const std::size_t n = mutated.draft_tokens.size();
              if (n == 0) return;
              std::copy_n(mutated.target_row(n - 1), mutated.vocab, mutated.target_row(n));
            };
          }),
      mutated_integers({"chain-offset-not-advanced", "systematic", kind,
                        "all positions of a chain use the words of the first", chain},
                       [](Mutation& mutation) {
                         mutation.chain = [](Chain& mutated) {
                           for (auto* const words :
                                {&mutated.accept_words, &mutated.recover_words}) {
                             for (std::uint64_t& word : *words) word = words->front();
                           }
                         };
                       }),
      of_positions(
          {"residual-is-target-without-draft", "systematic", kind,
           "a rejected draft is replaced by a draw from the target without it, q left out", chain},
          [](Chain& mutated, std::size_t i) {
            // Beside the drafted token q becomes proportional to the target, and with it the
            // residual; the mass of the drafted token stays what it is, and so does its acceptance.
            const std::int32_t token = mutated.draft_tokens[i];
            float* const row = mutated.draft_row(i);
            double others = 0;
            for (std::size_t id = 0; id < mutated.vocab; ++id) {
              others += static_cast<double>(row[id]);
            }
            const float* const target = mutated.target_row(i);
            others -= static_cast<double>(row[token]);
            double target_others = -static_cast<double>(target[token]);
            for (std::size_t id = 0; id < mutated.vocab; ++id) {
              target_others += static_cast<double>(target[id]);
            }
            if (!(target_others > 0) || !(others > 0)) return;
            for (std::size_t id = 0; id < mutated.vocab; ++id) {
              if (static_cast<std::int32_t>(id) == token) continue;
              row[id] =
                  static_cast<float>(static_cast<double>(target[id]) * others / target_others);
            }
          }),
  };
}

}  // namespace fairdraw::suites
