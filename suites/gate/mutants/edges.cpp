// Parameters at the ends of their range, and logits that tie.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

std::vector<Mutant> ties() {
  const std::string kind = "ties";
  return {
      mutated_integers({"topk-threshold-keeps-ties-by-batch",
                        "vLLM PR #50979",
                        kind,
                        "top_k keeps all ties, or exactly k in batches of eight and more",
                        {"mask/ties_at_k/v1000/edges", "metamorphic/*"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place& place) {
                           if (place.call->rows >= 8) row.tie_rule = TieRule::lowest_id;
                         };
                       }),
      mutated_integers(
          {"unstable-sort-at-nucleus-edge",
           "SGLang issue #4876",
           kind,
           "which of the ties at the edge of the nucleus stay depends on the order of the sort",
           {"mask/ties_at_k/v1000/edges", "mask/ties_at_k/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              const bool filtered = row.parameters.top_p > 0 && row.parameters.top_p < 1;
              if (!filtered || result.status != RowStatus::ok) return;
              std::vector<Candidate> kept = ranked(result, row);
              const auto total = static_cast<double>(result.total);
              // One by one, as a sort without a rule for ties: as many of the last value as p
              // needs.
              double mass = 0;
              reference::RowParameters whole = row.parameters;
              whole.top_p = 1;
              const auto base = static_cast<double>(result_of(row, whole).total);
              const double needed =
                  static_cast<double>(row.parameters.top_p) * std::max(base, total);
              std::size_t count = 0;
              while (count < kept.size() && mass < needed) {
                mass += static_cast<double>(kept[count++].weight);
              }
              kept.resize(std::max<std::size_t>(count, 1));
              keep_only(result, kept);
            };
          }),
      mutated_distribution(
          {"argmax-last-wins",
           "lattice #280; PyTorch #93630, #27542; tt-metal PR #50687",
           kind,
           "greedy rows take the last id among equal maxima",
           {"mask/all_equal/v1000/edges", "mask/ties_at_k/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (result.greedy_token < 0 || row.from_probs) return;
              const float largest = row.logits[static_cast<std::size_t>(result.greedy_token)];
              for (std::size_t id = row.logits.size(); id > 0; --id) {
                const bool allowed = row.allowed.empty() ||
                                     ((row.allowed[(id - 1) / 32] >> ((id - 1) % 32)) & 1U) != 0;
                if (row.logits[id - 1] != largest || !allowed) continue;
                keep_only(result, {{static_cast<std::int32_t>(id - 1), largest, 0}});
                return;
              }
            };
          }),
      mutated_distribution(
          {"argmax-after-softmax-creates-ties",
           "vLLM PR #13312",
           kind,
           "greedy rows take the largest probability, in float16: logits that differ become equal",
           {"mask/flat/v1000/edges", "mask/gaussian/v1000/edges"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (result.greedy_token < 0 || row.from_probs) return;
              const auto half = [&](std::size_t id) {
                const double share = static_cast<double>(result.weight[id]) /
                                     static_cast<double>(result.total_unfiltered);
                return harness::rounded_to(DType::float16, static_cast<float>(share));
              };
              std::size_t best = static_cast<std::size_t>(result.greedy_token);
              for (std::size_t id = best; id-- > 0;) {
                if (half(id) >= half(best)) best = id;
              }
              keep_only(result, {{static_cast<std::int32_t>(best), row.logits[best], 0}});
            };
          }),
  };
}

std::vector<Mutant> parameters() {
  const std::string kind = "edge-parameter";
  const std::vector<std::string> edges = {"mask/*/v1000/edges"};
  const auto on_row = [&](const char* name, const char* source, const char* wrong,
                          void (*change)(Row&)) {
    return mutated_distribution({name, source, kind, wrong, edges}, [change](Mutation& mutation) {
      mutation.row = [change](Row& row, const Place&) { change(row); };
    });
  };
  const auto on_result = [&](const char* name, const char* source, const char* wrong,
                             bool (*applies)(const Row&)) {
    return mutated_distribution({name, source, kind, wrong, edges}, [applies](Mutation& mutation) {
      mutation.result = [applies](Result& result, const Row& row, const Place&) {
        if (result.status == RowStatus::ok && applies(row)) keep_only(result, {});
      };
    });
  };
  return {
      on_row("topk-zero-is-greedy", "llama.cpp PR #5388; tpu-inference #1386",
             "a top_k that is off is taken for 1",
             [](Row& row) { row.parameters.top_k = std::max(row.parameters.top_k, 1); }),
      mutated_integers(
          {"topk-gt-vocab",
           "CTranslate2 PR #586; TransformerLens PR #1347; TensorRT-LLM PR #12088; ollama "
           "transforms.go @00a948ad",
           kind,
           "a top_k above the vocabulary reads candidates past the end of the row",
           {"tokens/*/v1000/edges", "metamorphic/*/v31/*"}},
          [](Mutation& mutation) {
            const auto beyond = std::make_shared<bool>(false);
            mutation.call = [beyond](fairdraw_batch& batch, Storage&) {
              *beyond = false;
              for (std::int64_t row = 0; row < batch.rows; ++row) {
                if (batch.top_k[row] > batch.vocab) *beyond = true;
              }
            };
            mutation.finish = [beyond](const fairdraw_batch& batch) {
              if (!*beyond) return;
              for (std::int64_t output = 0; output < batch.outputs; ++output) {
                const std::int64_t row = batch.indices != nullptr ? batch.indices[output] : output;
                if (row < 0 || row >= batch.rows || batch.top_k[row] <= batch.vocab) continue;
                batch.tokens[output * batch.num_samples] = 0x3f800000;  // a float32 taken for an id
              }
            };
          }),
      on_row("topp-one-is-greedy", "ChatRWKV PR #170",
             "top_p 1 finds no partial sum above it, and falls back on the first candidate",
             [](Row& row) {
               if (row.parameters.top_p == 1) row.parameters.top_k = 1;
             }),
      on_result("topp-zero-empty", "HF transformers PR #19839; google-deepmind/simply PR #42",
                "top_p 0 leaves nothing, and token 0 is returned",
                [](const Row& row) { return row.parameters.top_p == 0; }),
      on_result("temperature-zero-divides", "CTranslate2 PR #1659; exllamav2 #50; nanoGPT PR #756",
                "temperature 0 divides by zero, and NaN makes token 0",
                [](const Row& row) { return row.parameters.temperature == 0; }),
      on_result(
          "temperature-1e-4-fp16-overflow", "vLLM #3063, PR #2937, PR #890; TensorRT-LLM #15715",
          "logits divided by a small temperature overflow float16, and NaN makes token 0",
          [](const Row& row) {
            const float temperature = row.parameters.temperature;
            return !row.from_probs && temperature > 0 &&
                   std::any_of(row.logits.begin(), row.logits.end(), [temperature](float logit) {
                     return logit / temperature >= 65520;  // what rounds to inf
                   });
          }),
      expecting({"mask/*/v32000/everyday", "mask/*/v1000/edges"},
                on_row("inverted-temperature-guard", "inspect_ai PR #266",
                       "a guard that should raise tiny temperatures lowers all others to 0.02",
                       [](Row& row) {
                         if (row.parameters.temperature > 0.02F) row.parameters.temperature = 0.02F;
                       })),
  };
}

}  // namespace

std::vector<Mutant> edge_mutants() { return joined({parameters(), ties()}); }

}  // namespace fairdraw::suites
