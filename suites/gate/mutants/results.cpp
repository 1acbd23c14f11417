// What is reported beside the token, where it is written, and what asking for it does.
#include <algorithm>
#include <cmath>
#include <memory>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

const std::string kResults = "results";

// The draw, not the mask, forgets the filters while `given` holds of the call.
Mutant unfiltered_where(MutantText text, bool (*given)(const fairdraw_batch&)) {
  return mutated_distribution(std::move(text), [given](Mutation& mutation) {
    const auto mutated = std::make_shared<bool>(false);
    mutation.call = [mutated, given](fairdraw_batch& batch, Storage&) { *mutated = given(batch); };
    mutation.weights = [mutated](RowWeights& weights, const Result& row) {
      if (*mutated) weights = row.weight;
    };
  });
}

std::vector<Mutant> requests() {
  return {
      unfiltered_where({"mask-output-instead-of-filter",
                        "systematic",
                        kResults,
                        "where the mask is asked for, it is written and not applied to the draw",
                        {"replay/*"}},
                       [](const fairdraw_batch& batch) { return batch.mask != nullptr; }),
      unfiltered_where(
          {"support-size-path-unfiltered",
           "systematic",
           kResults,
           "where only the size of the support is asked for, the draw is one without filters",
           {"replay/*"}},
          [](const fairdraw_batch& batch) {
            return batch.support_size != nullptr && batch.mask == nullptr;
          }),
      mutated_integers({"logprobs-path-greedy",
                        "SGLang PR #2664",
                        kResults,
                        "where log-probabilities are asked for, the token is the most likely one",
                        {"replay/*"}},
                       [](Mutation& mutation) {
                         mutation.row = [](Row& row, const Place& place) {
                           if (place.call->logprob != nullptr) row.parameters.temperature = 0;
                         };
                       }),
      mutated_distribution(
          {"no-status-no-validation",
           "systematic",
           kResults,
           "rows are validated only where statuses are asked for: a bad row passes, and gives "
           "token 0",
           {"status/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place& place) {
              if (place.call->statuses != nullptr || result.status == RowStatus::ok) return;
              result.status = RowStatus::ok;
              result.mask.assign(row.logits.size(), 0);
              result.weight.assign(row.logits.size(), 0);
              result.weight[0] = result.total_unfiltered = 1;
              keep_only(result, {});
            };
          }),
  };
}

// A mutant of what is written, behind a right call.
Mutant of_finish(MutantText text, void (*change)(const fairdraw_batch&)) {
  return mutated_integers(std::move(text),
                          [change](Mutation& mutation) { mutation.finish = change; });
}

std::vector<Mutant> places() {
  return {
      mutated_distribution({"mask-stride-ignored",
                            "systematic",
                            kResults,
                            "rows of the mask are written without the gaps that were asked for",
                            {"mask/*"}},
                           [](Mutation& mutation) {
                             mutation.call = [](fairdraw_batch& batch, Storage&) {
                               batch.mask_stride = (batch.vocab + 31) / 32;
                             };
                           }),
      mutated_integers({"probs-stride-ignored",
                        "systematic",
                        kResults,
                        "rows of probabilities are written without gaps",
                        {"probabilities/*"}},
                       [](Mutation& mutation) {
                         mutation.call = [](fairdraw_batch& batch, Storage&) {
                           batch.probs_stride = batch.vocab;
                         };
                       }),
      mutated_distribution({"allowed-stride-ignored",
                            "systematic",
                            kResults,
                            "rows of the bitmask are read without the gaps between them",
                            {"mask/*/banned"}},
                           [](Mutation& mutation) {
                             mutation.call = [](fairdraw_batch& batch, Storage&) {
                               batch.allowed_stride = (batch.vocab + 31) / 32;
                             };
                           }),
      of_finish({"mask-tail-bits-set",
                 "vllm-metal PR #280",
                 kResults,
                 "bits of the mask beyond the vocabulary are set",
                 {"mask/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.mask == nullptr || batch.vocab % 32 == 0) return;
                  for (std::int64_t row = 0; row < batch.rows; ++row) {
                    batch.mask[row * batch.mask_stride + batch.vocab / 32] |= ~0U
                                                                              << (batch.vocab % 32);
                  }
                }),
      of_finish({"mask-gap-cleared",
                 "systematic",
                 kResults,
                 "the gap behind each row of the mask is cleared with it",
                 {"mask/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.mask == nullptr) return;
                  const std::int64_t words = (batch.vocab + 31) / 32;
                  for (std::int64_t row = 0; row + 1 < batch.rows; ++row) {
                    for (std::int64_t at = words; at < batch.mask_stride; ++at) {
                      batch.mask[row * batch.mask_stride + at] = 0;
                    }
                  }
                }),
      of_finish({"support-size-by-row",
                 "systematic",
                 kResults,
                 "with indices, output i has the support size of output i modulo the "
                 "rows",
                 {"mask/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.support_size == nullptr || batch.rows == 0) return;
                  for (std::int64_t i = batch.rows; i < batch.outputs; ++i) {
                    batch.support_size[i] = batch.support_size[i % batch.rows];
                  }
                }),
      of_finish({"status-by-row",
                 "systematic",
                 kResults,
                 "with indices, output i has the status of output i modulo the rows",
                 {"status/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.statuses == nullptr || batch.rows == 0) return;
                  for (std::int64_t i = batch.rows; i < batch.outputs; ++i) {
                    batch.statuses[i] = batch.statuses[i % batch.rows];
                  }
                }),
      of_finish({"failed-row-first-sample-only",
                 "systematic",
                 kResults,
                 "of the samples of a bad row only the first is -1, the others are 0",
                 {"status/*"}},
                [](const fairdraw_batch& batch) {
                  for (std::int64_t i = 0; i < batch.outputs; ++i) {
                    std::int32_t* const of = batch.tokens + i * batch.num_samples;
                    if (of[0] == -1) std::fill(of + 1, of + batch.num_samples, 0);
                  }
                }),
  };
}

std::vector<Mutant> logprobs() {
  return {
      of_finish({"logprob-of-first-sample",
                 "vLLM issue #3632",
                 kResults,
                 "all samples of an output report the log-probability of the first",
                 {"probabilities/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.logprob == nullptr) return;
                  for (std::int64_t i = 0; i < batch.outputs; ++i) {
                    for (float* const values : {batch.logprob, batch.logprob_filtered}) {
                      float* const of = values + i * batch.num_samples;
                      std::fill(of + 1, of + batch.num_samples, of[0]);
                    }
                  }
                }),
      of_finish({"logprob-by-row",
                 "llama.cpp issue #4166",
                 kResults,
                 "with indices, log-probabilities are those of output i modulo the rows",
                 {"probabilities/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.logprob == nullptr || batch.rows == 0) return;
                  for (float* const values : {batch.logprob, batch.logprob_filtered}) {
                    const std::int64_t size = batch.rows * batch.num_samples;
                    for (std::int64_t i = size; i < batch.outputs * batch.num_samples; ++i) {
                      values[i] = values[i % size];
                    }
                  }
                }),
      of_finish({"logprob-normalised-over-banned",
                 "SGLang PR #2664",
                 kResults,
                 "log-probabilities are those of a softmax over banned tokens too",
                 {"probabilities/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.logprob == nullptr || batch.allowed == nullptr) return;
                  for (std::int64_t i = 0; i < batch.outputs * batch.num_samples; ++i) {
                    batch.logprob[i] -= 0.6931472F;  // half of the ids have half of the mass
                  }
                }),
      of_finish({"logprob-temperature-1",
                 "ollama issue #16196; CTranslate2 issue #1620",
                 kResults,
                 "log-probabilities are scaled back to temperature 1",
                 {"probabilities/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.logprob == nullptr || batch.indices != nullptr) return;
                  for (std::int64_t i = 0; i < batch.outputs; ++i) {
                    if (batch.temperature[i] > 0) batch.logprob[i] *= batch.temperature[i];
                  }
                }),
      of_finish({"logprob-in-float16",
                 "systematic",
                 kResults,
                 "log-probabilities pass through bfloat16",
                 {"probabilities/*"}},
                [](const fairdraw_batch& batch) {
                  if (batch.logprob == nullptr) return;
                  for (std::int64_t i = 0; i < batch.outputs * batch.num_samples; ++i) {
                    batch.logprob[i] = to_bf16(batch.logprob[i]);
                  }
                }),
      of_finish({"writes-before-tokens",
                 "systematic",
                 kResults,
                 "the token of output -1 is written",
                 {"support/*/v1000/*"}},
                [](const fairdraw_batch& batch) { batch.tokens[-1] = 0; }),
  };
}

}  // namespace

std::vector<Mutant> result_mutants() { return joined({requests(), places(), logprobs()}); }

}  // namespace fairdraw::suites
