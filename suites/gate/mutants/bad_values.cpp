// NaN and infinity, where a row must fail and does not, or fails for no reason.
#include <algorithm>
#include <cmath>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

bool has_bad_value(const Row& row) {
  return std::any_of(row.logits.begin(), row.logits.end(),
                     [](float logit) { return std::isnan(logit) || logit == -kOut; });
}

// The row passes for a good one, and gives `token`.
void give(Result& result, std::int32_t token) {
  result.status = RowStatus::ok;
  keep_only(result, {{token, 0, 0}});
  result.weight[static_cast<std::size_t>(token)] = 1;
  result.total = result.total_unfiltered = 1;
}

// Rows with a bad value pass, and draw a token that is none.
Mutant stray_token(const char* name, const char* source, const char* wrong,
                   std::int32_t (*token)(const DrawWeights&)) {
  return mutated_integers(
      {name, source, "nan-inf", wrong, {"status/*"}}, [token](Mutation& mutation) {
        mutation.result = [](Result& result, const Row& row, const Place&) {
          if (result.status == RowStatus::ok || !has_bad_value(row)) return;
          give(result, 0);
          result.mask[0] = 0;
        };
        mutation.pick = [token](const DrawWeights& drawn, std::uint64_t word) {
          return drawn.total() == 0 ? token(drawn) : drawn.token_at(drawn.position(word));
        };
      });
}

}  // namespace

std::vector<Mutant> bad_value_mutants() {
  const std::string kind = "nan-inf";
  return {
      mutated_distribution(
          {"greedy-row-negative-temperature",
           "vLLM issue #22180",
           kind,
           "greedy rows carry temperature -1 in a mixed batch: a logit of -inf becomes +inf, and "
           "NaN "
           "makes token 0",
           {"mask/masked/v1000/edges"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place& place) {
              if (row.parameters.temperature != 0 || result.status != RowStatus::ok) return;
              const bool mixed =
                  std::any_of(place.call->temperature, place.call->temperature + place.call->rows,
                              [](float temperature) { return temperature != 0; });
              const bool masked = std::count(row.logits.begin(), row.logits.end(), kOut) > 0;
              if (mixed && masked) keep_only(result, {});
            };
          }),
      stray_token(
          "nan-row-gives-vocab-size", "vLLM issue #53029, PR #21876, #50183",
          "a row with NaN finds no maximum, and gives the vocabulary's size",
          [](const DrawWeights& drawn) { return static_cast<std::int32_t>(drawn.vocab()); }),
      stray_token("nan-row-uninitialised-id", "FlashInfer PR #2455, #2402",
                  "a row with NaN never sets its last valid id, and gives garbage",
                  [](const DrawWeights&) { return std::int32_t{0x5f3759df}; }),
      mutated_integers(
          {"single-nan-means-token0",
           "colibri #369; rten PR #1089; vLLM PR #42722",
           kind,
           "one NaN or +inf poisons the softmax, no comparison holds, and token 0 is returned",
           {"status/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (result.status != RowStatus::ok && has_bad_value(row)) give(result, 0);
            };
          }),
      mutated_integers({"nan-to-zero-logit",
                        "vllm-ascend PR #14098, #14116",
                        kind,
                        "NaN becomes a logit of 0, the largest where the others are negative",
                        {"status/*"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           for (float& logit : row.logits) logit = std::isnan(logit) ? 0 : logit;
                         };
                       }),
      mutated_float(
          {"t1-skips-max-subtraction",
           "ollama transforms.go @00a948ad",
           kind,
           "at temperature 1 the largest logit is not subtracted: exp overflows float32 above 88.7",
           {"mask/huge_range/v1000/edges"}},
          FloatSampler::Order::vllm_torch, FloatSampler::Draw::inverse_cdf,
          [](FloatMutation& mutation) {
            mutation.filtered = [](FloatSampler::Scores& scores, const FloatSampler::Logits& logits,
                                   const reference::RowParameters& parameters) {
              const float largest = *std::max_element(logits.begin(), logits.end());
              const bool overflows = parameters.temperature == 1 && std::isinf(std::exp(largest));
              if (overflows) std::fill(scores.begin(), scores.end(), static_cast<double>(kOut));
            };
          }),
      mutated_integers(
          {"argmax-nan-inf-triton",
           "Triton issues #9022, #6635, #10291, PR #1813",
           kind,
           "greedy rows look for the maximum by >, from the first logit on: NaN in front wins",
           {"status/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              const bool greedy = row.parameters.temperature == 0 || row.parameters.top_k == 1;
              if (result.status == RowStatus::ok || !greedy || !has_bad_value(row)) return;
              std::size_t best = 0;
              for (std::size_t id = 1; id < row.logits.size(); ++id) {
                if (row.logits[id] > row.logits[best]) best = id;
              }
              give(result, static_cast<std::int32_t>(best));
            };
          }),
      mutated_integers({"nan-at-banned-id-passes",
                        "systematic",
                        kind,
                        "NaN and +inf are looked for at allowed ids only",
                        {"status/*"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place&) {
                           for (std::size_t id = 0; !row.allowed.empty() && id < row.logits.size();
                                ++id) {
                             const bool allowed = ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
                             if (!allowed) row.logits[id] = 0;
                           }
                         };
                       }),
      mutated_integers(
          {"statuses-missing", "systematic", kind, "every row reports success", {"status/*"}},
          [](Mutation& mutation) { mutation.status = [](RowStatus) { return std::int32_t{0}; }; }),
      mutated_integers(
          {"inactive-row-read", "systematic", kind, "rows of padding are sampled", {"status/*"}},
          [](Mutation& mutation) {
            mutation.call = [](fairdraw_batch& batch, Storage&) { batch.active = nullptr; };
          }),
      mutated_integers(
          {"index-clamped",
           "systematic",
           kind,
           "an index outside of the rows is clamped to them instead of refused",
           {"status/*"}},
          [](Mutation& mutation) {
            mutation.call = [](fairdraw_batch& batch, Storage& storage) {
              if (batch.indices == nullptr || batch.rows == 0) return;
              std::vector<std::int32_t> clamped(batch.indices, batch.indices + batch.outputs);
              for (std::int32_t& index : clamped) {
                index = std::clamp(index, 0, static_cast<std::int32_t>(batch.rows - 1));
              }
              batch.indices = storage.keep(std::move(clamped));
            };
          }),
  };
}

}  // namespace fairdraw::suites
