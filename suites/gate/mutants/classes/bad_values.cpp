// Mutants that treat NaN and infinity wrongly: a row must fail but does not, or fails without a
// reason.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

bool has_bad_value(const Row& row) {
  return std::ranges::any_of(row.logits,
                             [](float logit) { return std::isnan(logit) || logit == -kOut; });
}

// Makes the row succeed with the token `token`.
void give(Result& result, std::int32_t token) {
  result.status = RowStatus::ok;
  keep_only(result, {{token, 0, 0}});
  result.weight[static_cast<std::size_t>(token)] = 1;
  result.total = result.total_unfiltered = 1;
}

// Makes rows with an invalid value succeed with a token outside the vocabulary.
void draw_stray(Mutation& mutation, std::int32_t (*token)(const DrawWeights&)) {
  mutation.result = [](Result& result, const Row& row, const Place&) {
    if (result.status == RowStatus::ok || !has_bad_value(row)) return;
    give(result, 0);
    result.mask[0] = 0;
  };
  mutation.pick = [token](const DrawWeights& drawn, std::uint64_t word) {
    return drawn.total() == 0 ? token(drawn) : token_of(drawn, word);
  };
}

constexpr Entry kBadValues[] = {
    {"greedy-row-negative-temperature", "vLLM issue #22180",
     "greedy rows carry temperature -1 in a mixed batch: a logit of -inf becomes +inf, and NaN "
     "makes token 0",
     By("mask/masked/v1000/edges", Base::distribution),
     [](Result& result, const Row& row, const Place& place) {
       if (row.parameters.temperature != 0 || result.status != RowStatus::ok) return;
       const std::span temperatures(place.call->temperature,
                                    static_cast<std::size_t>(place.call->rows));
       const bool mixed = std::ranges::any_of(temperatures, [](float t) { return t != 0; });
       const bool masked = std::ranges::count(row.logits, kOut) > 0;
       if (mixed && masked) keep_only(result, {});
     }},
    {"nan-row-gives-vocab-size", "vLLM issue #53029, PR #21876, #50183",
     "a row with NaN finds no maximum, and gives the vocabulary's size",
     [](Mutation& mutation) {
       draw_stray(mutation,
                  [](const DrawWeights& of) { return static_cast<std::int32_t>(of.vocab()); });
     }},
    {"nan-row-uninitialised-id", "FlashInfer PR #2455, #2402",
     "a row with NaN never sets its last valid id, and gives garbage",
     [](Mutation& mutation) {
       draw_stray(mutation, [](const DrawWeights&) { return std::int32_t{0x5f3759df}; });
     }},
    {"single-nan-means-token0", "colibri #369; rten PR #1089; vLLM PR #42722",
     "one NaN or +inf poisons the softmax, no comparison holds, and token 0 is returned",
     [](Result& result, const Row& row) {
       if (result.status != RowStatus::ok && has_bad_value(row)) give(result, 0);
     }},
    {"nan-to-zero-logit", "vllm-ascend PR #14098, #14116",
     "NaN becomes a logit of 0, the largest where the others are negative",
     [](Row& row) {
       for (float& logit : row.logits) logit = std::isnan(logit) ? 0 : logit;
     }},
    {"t1-skips-max-subtraction", "ollama transforms.go @00a948ad",
     "at temperature 1 the largest logit is not subtracted: exp overflows float32 above 88.7",
     By("mask/huge_range/v1000/edges", Base::vllm_cdf),
     [](FloatMutation& mutation) {
       mutation.filtered = [](Scores& scores, const Logits& logits, const Parameters& parameters) {
         const float largest = *std::ranges::max_element(logits);
         const bool overflows = parameters.temperature == 1 && std::isinf(std::exp(largest));
         if (overflows) std::ranges::fill(scores, static_cast<double>(kOut));
       };
     }},
    {"argmax-nan-inf-triton", "Triton issues #9022, #6635, #10291, PR #1813",
     "greedy rows look for the maximum by >, from the first logit on: NaN in front wins",
     [](Result& result, const Row& row) {
       const bool greedy = row.parameters.temperature == 0 || row.parameters.top_k == 1;
       if (result.status == RowStatus::ok || !greedy || !has_bad_value(row)) return;
       std::size_t best = 0;
       for (std::size_t id = 1; id < row.logits.size(); ++id) {
         if (row.logits[id] > row.logits[best]) best = id;
       }
       give(result, static_cast<std::int32_t>(best));
     }},
    {"nan-at-banned-id-passes", "NaN and +inf are looked for at allowed ids only",
     [](Row& row) {
       for (std::size_t id = 0; !row.allowed.empty() && id < row.logits.size(); ++id) {
         if (!is_allowed(row, id)) row.logits[id] = 0;
       }
     }},
    {"statuses-missing", "every row reports success",
     [](Mutation& mutation) { mutation.status = [](RowStatus) { return std::int32_t{0}; }; }},
    {"inactive-row-read", "rows of padding are sampled",
     [](fairdraw_batch& batch) { batch.active = nullptr; }},
    {"index-clamped", "an index outside of the rows is clamped to them instead of refused",
     [](fairdraw_batch& batch, Storage& storage) { change_indices(batch, storage, nearest_row); }},
};

// Mutants that treat bad rows wrongly under the profiles of engines: they break a rule of the
// profile, or a row that the profile leaves undefined affects other rows.

template <class NewValue>
void change_temperatures(fairdraw_batch& batch, Storage& storage, NewValue change) {
  std::vector<float> temperature(batch.temperature, batch.temperature + batch.rows);
  for (float& value : temperature) value = change(value);
  batch.temperature = storage.keep(std::move(temperature));
}

bool holds_nan(const fairdraw_batch& batch) {
  const auto* const bytes = static_cast<const std::byte*>(batch.logits);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    for (std::int64_t id = 0; id < batch.vocab; ++id) {
      float logit = 0;  // a copy, because rows may have any alignment
      std::memcpy(&logit, bytes + (row * batch.row_stride + id) * std::int64_t{sizeof(float)},
                  sizeof(float));
      if (std::isnan(logit)) return true;
    }
  }
  return false;
}

constexpr Entry kEngineBadRows[] = {
    {"engine-negative-temperature-is-greedy", "vLLM issue #22180",
     "a negative temperature, which the engine refuses, is taken for 0",
     [](fairdraw_batch& batch, Storage& storage) {
       change_temperatures(batch, storage, [](float value) { return value < 0 ? 0 : value; });
     }},
    {"engine-negative-temperature-draws",
     "a temperature of -1, which is greedy in the engine, draws at 1", Base::rosellm_cdf,
     [](fairdraw_batch& batch, Storage& storage) {
       change_temperatures(batch, storage, [](float value) { return value == -1 ? 1 : value; });
     }},
    // The profile defines nothing for the row with a NaN, so only the other rows reveal the bug.
    {"engine-nan-makes-the-call-greedy",
     "a flag for NaN belongs to the call: all of its rows take their largest logit",
     [](fairdraw_batch& batch, Storage& storage) {
       if (!holds_nan(batch)) return;
       change_temperatures(batch, storage, [](float) { return 0.0F; });
     }},
    {"engine-negative-top-k-is-off", "every negative top_k is off, where the engine refuses them",
     Base::hf_cdf,
     [](fairdraw_batch& batch, Storage& storage) {
       std::vector<std::int32_t> top_k(batch.top_k, batch.top_k + batch.rows);
       for (std::int32_t& k : top_k) {
         if (k < 0) k = static_cast<std::int32_t>(batch.vocab);
       }
       batch.top_k = storage.keep(std::move(top_k));
     }},
    {"engine-padding-is-sampled", "rows of padding are sampled", Base::rosellm_cdf,
     [](fairdraw_batch& batch) { batch.active = nullptr; }},
    {"engine-index-clamped", "an index outside of the rows is clamped to them", Base::hf_cdf,
     [](fairdraw_batch& batch, Storage& storage) { change_indices(batch, storage, nearest_row); }},
};

}  // namespace

std::vector<Mutant> bad_value_mutants() {
  return mutants_of("nan-inf", "status/*", Base::integers, kBadValues);
}

std::vector<Mutant> engine_bad_row_mutants() {
  return mutants_of("engine-bad-rows", "status/*", Base::vllm_cdf, kEngineBadRows);
}

}  // namespace fairdraw::suites
