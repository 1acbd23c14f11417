// Parameters that are clamped, rounded or taken for another value, in ranges that people set.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;

const std::string kParameterRange = "parameter-range";
const std::vector<std::string> kMasks = {"mask/*/v1000/edges", "mask/*"};

Mutant of_row(const char* name, const char* source, const char* wrong,
              void (*change)(reference::RowParameters&, std::size_t vocab)) {
  return mutated_distribution({name, source, kParameterRange, wrong, kMasks},
                              [change](Mutation& mutation) {
                                mutation.row = [change](Row& row, const Place&) {
                                  change(row.parameters, row.logits.size());
                                };
                              });
}

float in_bf16(float value) { return harness::rounded_to(DType::bfloat16, value); }
float in_f16(float value) { return harness::rounded_to(DType::float16, value); }

std::vector<Mutant> top_k() {
  using Parameters = reference::RowParameters;
  return {
      of_row("top-k-at-most-1024", "TensorRT-LLM, kernels of top-k up to 1024",
             "a top_k above 1024 is taken for 1024",
             [](Parameters& p, std::size_t v) {
               if (static_cast<std::size_t>(std::max(p.top_k, 0)) < v) {
                 p.top_k = std::min(p.top_k, 1024);
               }
             }),
      of_row("top-k-above-2048-off", "systematic",
             "a top_k above 2048 does not fit the kernel, and is off",
             [](Parameters& p, std::size_t) {
               if (p.top_k > 2048) p.top_k = 0;
             }),
      of_row("top-k-in-16-bits", "systematic", "top_k is stored in 16 bits",
             [](Parameters& p, std::size_t v) {
               const bool filters = p.top_k > 0 && static_cast<std::size_t>(p.top_k) < v;
               if (filters) p.top_k = std::max(p.top_k & 0xffff, 1);
             }),
      of_row("top-k-largest-int-overflows", "systematic",
             "top_k + 1 overflows: the largest int is taken for 1",
             [](Parameters& p, std::size_t) {
               if (p.top_k == std::numeric_limits<std::int32_t>::max()) p.top_k = 1;
             }),
      of_row("top-k-to-multiple-of-16", "systematic",
             "a top_k above 16 is rounded up to a multiple of 16",
             [](Parameters& p, std::size_t) {
               if (p.top_k > 16) p.top_k = (p.top_k + 15) / 16 * 16;
             }),
      of_row("top-k-of-half-the-vocabulary-off", "systematic",
             "a top_k of more than half of the vocabulary is off",
             [](Parameters& p, std::size_t v) {
               if (2 * static_cast<std::size_t>(std::max(p.top_k, 0)) > v &&
                   static_cast<std::size_t>(p.top_k) + 1 < v) {
                 p.top_k = 0;
               }
             }),
  };
}

std::vector<Mutant> floats() {
  using Parameters = reference::RowParameters;
  return {
      of_row("top-p-0.999-off", "systematic", "a top_p of 0.995 and more is off",
             [](Parameters& p, std::size_t) {
               if (p.top_p >= 0.995F && p.top_p < 1) p.top_p = 1;
             }),
      of_row("top-p-floor", "systematic", "a top_p below 0.1 is taken for 0.1",
             [](Parameters& p, std::size_t) {
               if (p.top_p > 0) p.top_p = std::max(p.top_p, 0.1F);
             }),
      of_row("top-p-in-bf16", "systematic", "top_p is rounded to bfloat16",
             [](Parameters& p, std::size_t) { p.top_p = in_bf16(p.top_p); }),
      of_row("top-p-in-f16", "systematic", "top_p is rounded to float16",
             [](Parameters& p, std::size_t) { p.top_p = in_f16(p.top_p); }),
      of_row("min-p-in-bf16", "systematic", "min_p is rounded to bfloat16",
             [](Parameters& p, std::size_t) { p.min_p = in_bf16(p.min_p); }),
      of_row("min-p-at-least-0.001", "systematic", "a min_p below 0.01 is off",
             [](Parameters& p, std::size_t) {
               if (p.min_p < 0.01F) p.min_p = 0;
             }),
      of_row("min-p-at-most-half", "systematic", "a min_p above 1/2 is taken for 1/2",
             [](Parameters& p, std::size_t) {
               if (p.min_p < 1) p.min_p = std::min(p.min_p, 0.5F);
             }),
      of_row("temperature-in-bf16", "systematic", "the temperature is rounded to bfloat16",
             [](Parameters& p, std::size_t) { p.temperature = in_bf16(p.temperature); }),
      of_row("temperature-floor-0.01", "vLLM, _MAX_TEMP",
             "a temperature below 0.01 is taken for 0.01",
             [](Parameters& p, std::size_t) {
               if (p.temperature > 0) p.temperature = std::max(p.temperature, 0.01F);
             }),
      of_row("temperature-at-most-2", "systematic", "a temperature above 2 is taken for 2",
             [](Parameters& p, std::size_t) { p.temperature = std::min(p.temperature, 2.0F); }),
      expecting({"chi_squared/gaussian_wide/v1000/none/t1.05/*"},
                of_row("temperature-near-1-skipped", "systematic",
                       "a temperature within a tenth of 1 is taken for 1",
                       [](Parameters& p, std::size_t) {
                         if (std::fabs(p.temperature - 1) < 0.1F) p.temperature = 1;
                       })),
      mutated_distribution(
          {"temperature-of-zeros-twice",
           "sglang-jax PR #1563",
           kParameterRange,
           "where min_p is on, the temperature is applied a second time behind it",
           {"mask/*/v1000/*"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              if (row.parameters.min_p > 0 && row.parameters.temperature != 0 && !row.from_probs) {
                row.parameters.temperature = std::clamp(
                    row.parameters.temperature * row.parameters.temperature, 0x1p-126F, 0x1p64F);
              }
            };
          }),
  };
}

std::vector<Mutant> values() {
  return {
      mutated_distribution(
          {"bf16-through-float16",
           "systematic",
           kParameterRange,
           "bfloat16 logits pass through float16: what is above 65504 becomes the largest value",
           {"mask/*/bfloat16/*"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place& place) {
              if (place.call->dtype != 2 || row.from_probs) return;
              for (float& logit : row.logits) {
                if (std::isfinite(logit)) logit = std::clamp(in_f16(logit), -65504.0F, 65504.0F);
              }
            };
          }),
      mutated_distribution({"float16-subnormals-flushed",
                            "systematic",
                            kParameterRange,
                            "float16 logits below 2^-14 are read as 0",
                            {"mask/*/float16/*"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place& place) {
                               if (place.call->dtype != 1) return;
                               for (float& logit : row.logits) {
                                 if (std::fabs(logit) < 0x1p-14F) logit = 0;
                               }
                             };
                           }),
      mutated_distribution({"signed-zero-keys",
                            "SuperNPUBench PR #78",
                            kParameterRange,
                            "keys for a radix sort are made of the bits: -0 is less than +0",
                            {"mask/*"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place&) {
                               for (float& logit : row.logits) {
                                 if (!row.from_probs && logit == 0 && std::signbit(logit))
                                   logit = -0x1p-149F;
                               }
                             };
                           }),
      mutated_distribution(
          {"argmax-from-zero",
           "MXNet issue #9007",
           kParameterRange,
           "the running maximum of a greedy row starts at 0: a row of negative logits gives id 0",
           {"mask/all_negative/*"}},
          [](Mutation& mutation) {
            mutation.result = [](Result& result, const Row& row, const Place&) {
              if (result.greedy_token < 0 || row.from_probs) return;
              if (row.logits[static_cast<std::size_t>(result.greedy_token)] < 0) {
                keep_only(result, {{0, row.logits[0], 0}});
              }
            };
          }),
      mutated_distribution(
          {"probabilities-taken-for-normalised",
           "mlx-lm PR #388; FlashInfer issue #2202",
           kParameterRange,
           "rows of probabilities are taken to sum to 1: top_p of a row that sums to less keeps "
           "more",
           {"tokens/*/probs", "chi_squared/*/probs*"}},
          [](Mutation& mutation) {
            mutation.row = [](Row& row, const Place&) {
              if (!row.from_probs || !(row.parameters.top_p > 0 && row.parameters.top_p < 1))
                return;
              double sum = 0;
              for (const float p : row.logits) sum += static_cast<double>(p);
              if (std::isfinite(sum) && sum > 0) {
                row.parameters.top_p = static_cast<float>(
                    std::clamp(static_cast<double>(row.parameters.top_p) / sum, 0x1p-126, 1.0));
              }
            };
          }),
      mutated_distribution({"top-k-counts-banned",
                            "sglang-jax PR #1563",
                            kParameterRange,
                            "top_k is counted before the bans",
                            {"mask/*/banned"}},
                           [](Mutation& mutation) {
                             mutation.row = [](Row& row, const Place&) {
                               const std::int32_t k = row.parameters.top_k;
                               const bool filters =
                                   k > 1 && static_cast<std::size_t>(k) < row.logits.size();
                               if (!filters || row.allowed.empty() || row.from_probs) return;
                               std::vector<float> sorted = row.logits;
                               std::nth_element(sorted.begin(), sorted.begin() + (k - 1),
                                                sorted.end(), std::greater<>());
                               const float cut = sorted[static_cast<std::size_t>(k - 1)];
                               bool left = false;
                               for (std::size_t id = 0; id < row.logits.size(); ++id) {
                                 const bool allowed =
                                     ((row.allowed[id / 32] >> (id % 32)) & 1U) != 0;
                                 left = left || (allowed && row.logits[id] >= cut);
                               }
                               if (!left) return;
                               row.parameters.top_k = 0;
                               for (float& logit : row.logits) logit = logit < cut ? kOut : logit;
                             };
                           }),
  };
}

}  // namespace

std::vector<Mutant> parameter_mutants() { return joined({top_k(), floats(), values()}); }

}  // namespace fairdraw::suites
