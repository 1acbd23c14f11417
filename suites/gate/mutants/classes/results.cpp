// Mutants of results other than the token: wrong values, values in the wrong place, or side effects
// of requesting a result.
#include <algorithm>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

constexpr Entry kRequests[] = {
    {"mask-output-instead-of-filter",
     "where the mask is asked for, it is written and not applied to the draw",
     [](const fairdraw_batch& batch) { return batch.mask != nullptr; }},
    {"support-size-path-unfiltered",
     "where only the size of the support is asked for, the draw is one without filters",
     [](const fairdraw_batch& batch) {
       return batch.support_size != nullptr && batch.mask == nullptr;
     }},
    {"logprobs-path-greedy", "SGLang PR #2664",
     "where log-probabilities are asked for, the token is the most likely one", Base::integers,
     [](Row& row, const Place& place) {
       if (place.call->logprob != nullptr) row.parameters.temperature = 0;
     }},
    {"no-status-no-validation",
     "rows are validated only where statuses are asked for: a bad row passes, and gives token 0",
     By("status/*"),
     [](Result& result, const Row& row, const Place& place) {
       if (place.call->statuses != nullptr || result.status == RowStatus::ok) return;
       result.status = RowStatus::ok;
       result.mask.assign(row.logits.size(), 0);
       result.weight.assign(row.logits.size(), 0);
       result.weight[0] = result.total_unfiltered = 1;
       keep_only(result, {});
     }},
};

constexpr Entry kPlaces[] = {
    {"mask-stride-ignored", "rows of the mask are written without the gaps that were asked for",
     Base::distribution,
     [](fairdraw_batch& batch) { batch.mask_stride = (batch.vocab + 31) / 32; }},
    {"probs-stride-ignored", "rows of probabilities are written without gaps",
     By("probabilities/*"), [](fairdraw_batch& batch) { batch.probs_stride = batch.vocab; }},
    {"allowed-stride-ignored", "rows of the bitmask are read without the gaps between them",
     By("mask/*/banned", Base::distribution),
     [](fairdraw_batch& batch) { batch.allowed_stride = (batch.vocab + 31) / 32; }},
    {"mask-tail-bits-set", "vllm-metal PR #280", "bits of the mask beyond the vocabulary are set",
     [](const fairdraw_batch& batch) {
       if (batch.mask == nullptr || batch.vocab % 32 == 0) return;
       for (std::int64_t row = 0; row < batch.rows; ++row) {
         batch.mask[row * batch.mask_stride + batch.vocab / 32] |= ~0U << (batch.vocab % 32);
       }
     }},
    {"mask-gap-cleared", "the gap behind each row of the mask is cleared with it",
     [](const fairdraw_batch& batch) {
       if (batch.mask == nullptr) return;
       const std::int64_t words = (batch.vocab + 31) / 32;
       for (std::int64_t row = 0; row + 1 < batch.rows; ++row) {
         for (std::int64_t at = words; at < batch.mask_stride; ++at) {
           batch.mask[row * batch.mask_stride + at] = 0;
         }
       }
     }},
    {"support-size-by-row",
     "with indices, output i has the support size of output i modulo the rows",
     [](const fairdraw_batch& batch) {
       if (batch.support_size == nullptr || batch.rows == 0) return;
       for (std::int64_t i = batch.rows; i < batch.outputs; ++i) {
         batch.support_size[i] = batch.support_size[i % batch.rows];
       }
     }},
    {"status-by-row", "with indices, output i has the status of output i modulo the rows",
     By("status/*"),
     [](const fairdraw_batch& batch) {
       if (batch.statuses == nullptr || batch.rows == 0) return;
       for (std::int64_t i = batch.rows; i < batch.outputs; ++i) {
         batch.statuses[i] = batch.statuses[i % batch.rows];
       }
     }},
    {"failed-row-first-sample-only",
     "of the samples of a bad row only the first is -1, the others are 0", By("status/*"),
     [](const fairdraw_batch& batch) {
       for (std::int64_t i = 0; i < batch.outputs; ++i) {
         std::int32_t* const of = batch.tokens + i * batch.num_samples;
         if (of[0] == -1) std::fill(of + 1, of + batch.num_samples, 0);
       }
     }},
};

constexpr Entry kLogprobs[] = {
    {"logprob-of-first-sample", "vLLM issue #3632",
     "all samples of an output report the log-probability of the first",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr) return;
       for (std::int64_t i = 0; i < batch.outputs; ++i) {
         for (float* const values : {batch.logprob, batch.logprob_filtered}) {
           float* const of = values + i * batch.num_samples;
           std::fill(of + 1, of + batch.num_samples, of[0]);
         }
       }
     }},
    {"logprob-by-row", "llama.cpp issue #4166",
     "with indices, log-probabilities are those of output i modulo the rows",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr || batch.rows == 0) return;
       for (float* const values : {batch.logprob, batch.logprob_filtered}) {
         const std::int64_t size = batch.rows * batch.num_samples;
         for (std::int64_t i = size; i < batch.outputs * batch.num_samples; ++i) {
           values[i] = values[i % size];
         }
       }
     }},
    {"logprob-normalised-over-banned", "SGLang PR #2664",
     "log-probabilities are those of a softmax over banned tokens too",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr || batch.allowed == nullptr) return;
       for (std::int64_t i = 0; i < batch.outputs * batch.num_samples; ++i) {
         batch.logprob[i] -= 0.6931472F;  // ln 2: half of the ids have half of the mass
       }
     }},
    {"logprob-temperature-1", "ollama issue #16196; CTranslate2 issue #1620",
     "log-probabilities are scaled back to temperature 1",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr || batch.indices != nullptr) return;
       for (std::int64_t i = 0; i < batch.outputs; ++i) {
         if (batch.temperature[i] > 0) batch.logprob[i] *= batch.temperature[i];
       }
     }},
    {"logprob-in-float16", "log-probabilities pass through bfloat16",
     [](const fairdraw_batch& batch) {
       if (batch.logprob == nullptr) return;
       for (std::int64_t i = 0; i < batch.outputs * batch.num_samples; ++i) {
         batch.logprob[i] = to_bf16(batch.logprob[i]);
       }
     }},
    {"writes-before-tokens", "the token of output -1 is written", By("support/*/v1000/*"),
     [](const fairdraw_batch& batch) { batch.tokens[-1] = 0; }},
};

}  // namespace

std::vector<Mutant> result_mutants() {
  return joined({mutants_of("results", "replay/*", Base::distribution, kRequests),
                 mutants_of("results", "mask/*", Base::integers, kPlaces),
                 mutants_of("results", "probabilities/*", Base::integers, kLogprobs)});
}

}  // namespace fairdraw::suites
