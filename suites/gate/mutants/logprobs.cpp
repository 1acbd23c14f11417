// Log-probabilities as engines report them: which row they are of, which values, ranks, orders.
#include <algorithm>
#include <cmath>
#include <limits>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using reference::RealLogprobs;

const std::string kLogprobs = "logprobs";
constexpr float kNone = -std::numeric_limits<float>::infinity();

std::vector<float> without_banned(const Row& row) {
  std::vector<float> logits = row.logits;
  for (std::size_t id = 0; id < logits.size() && !row.allowed.empty(); ++id) {
    if (((row.allowed[id / 32] >> (id % 32)) & 1U) == 0) logits[id] = kNone;
  }
  return logits;
}

// The right values.
RealLogprobs right(const Row& row, const Result& result, LogprobsMode mode) {
  if (is_raw(mode)) {
    return reference::real_log_probabilities(row.logits, {}, mode, row.parameters.temperature);
  }
  return reference::real_log_probabilities(without_banned(row), result.mask, mode,
                                           row.parameters.temperature);
}

// --- Which values --------------------------------------------------------------------------------

Mutant of_values(MutantText text, RealLogprobs (*values)(const Row&, const Result&, LogprobsMode)) {
  return mutated_integers(std::move(text),
                          [values](Mutation& mutation) { mutation.report_values = values; });
}

std::vector<Mutant> values() {
  return {
      of_values({"raw-logprobs-after-filters",
                 "vLLM issue #9453",
                 kLogprobs,
                 "what is declared raw is reported after temperature and filters",
                 {"logprobs/*"}},
                [](const Row& row, const Result& result, LogprobsMode mode) {
                  if (mode == LogprobsMode::raw_logprobs) {
                    mode = LogprobsMode::processed_logprobs;
                  }
                  return right(row, result, mode);
                }),
      of_values({"raw-logprobs-at-temperature",
                 "SGLang, default",
                 kLogprobs,
                 "raw log-probabilities are those at the row's temperature",
                 {"logprobs/*"}},
                [](const Row& row, const Result& result, LogprobsMode mode) {
                  if (mode != LogprobsMode::raw_logprobs) return right(row, result, mode);
                  return reference::real_log_probabilities(
                      row.logits, {}, LogprobsMode::processed_logprobs, row.parameters.temperature);
                }),
      of_values({"raw-logprobs-after-bans",
                 "vLLM, apply_grammar_bitmask",
                 kLogprobs,
                 "the bitmask is applied in place, before raw values are taken",
                 {"logprobs/*/banned"}},
                [](const Row& row, const Result& result, LogprobsMode mode) {
                  if (!is_raw(mode)) return right(row, result, mode);
                  return reference::real_log_probabilities(without_banned(row), {}, mode, 1);
                }),
      of_values({"processed-logprobs-not-renormalised",
                 "systematic",
                 kLogprobs,
                 "processed log-probabilities are masked behind the softmax, not before it",
                 {"logprobs/*"}},
                [](const Row& row, const Result& result, LogprobsMode mode) {
                  RealLogprobs values = right(row, result, mode);
                  if (mode != LogprobsMode::processed_logprobs) return values;
                  const RealLogprobs unfiltered = reference::real_log_probabilities(
                      without_banned(row), {}, mode, row.parameters.temperature);
                  for (const std::int32_t token : values.order) {
                    const auto at = static_cast<std::size_t>(token);
                    values.value[at] = unfiltered.value[at];
                  }
                  return values;
                }),
      of_values({"processed-logits-undivided",
                 "systematic",
                 kLogprobs,
                 "processed logits are not divided by the temperature",
                 {"logprobs/*"}},
                [](const Row& row, const Result& result, LogprobsMode mode) {
                  if (mode != LogprobsMode::processed_logits) {
                    return right(row, result, mode);
                  }
                  return reference::real_log_probabilities(without_banned(row), result.mask, mode,
                                                           1);
                }),
      of_values({"top-n-ties-by-last-id",
                 "systematic",
                 kLogprobs,
                 "of equal values the largest id comes first",
                 {"logprobs/ties_at_k/*"}},
                [](const Row& row, const Result& result, LogprobsMode mode) {
                  RealLogprobs values = right(row, result, mode);
                  std::reverse(values.order.begin(), values.order.end());
                  std::stable_sort(values.order.begin(), values.order.end(),
                                   [&values](std::int32_t a, std::int32_t b) {
                                     return values.logits[static_cast<std::size_t>(a)] >
                                            values.logits[static_cast<std::size_t>(b)];
                                   });
                  return values;
                }),
  };
}

// --- What is written -----------------------------------------------------------------------------

using Change = void (*)(const fairdraw_batch&);

std::function<void(Mutation&)> at_the_end(Change change) {
  return [change](Mutation& mutation) {
    mutation.finish = [change](const fairdraw_batch& batch) {
      if (batch.report_values != nullptr) change(batch);
    };
  };
}

// A mutant of what is written, behind a right call that reports.
Mutant of_reports(MutantText text, Change change) {
  return mutated_integers(std::move(text), at_the_end(change));
}

// The same, of a sampler that claims no more than the distribution: it is given the slack of
// float32.
Mutant of_distribution_reports(MutantText text, Change change) {
  return mutated_distribution(std::move(text), at_the_end(change));
}

std::int64_t tokens_of(const fairdraw_batch& batch) { return batch.outputs * batch.num_samples; }

// Every value that is reported: of tokens, of the top, of whole rows.
template <class Change>
void change_values(const fairdraw_batch& batch, const Change& change) {
  for (std::int64_t i = 0; i < tokens_of(batch); ++i) change(batch.report_values[i]);
  for (std::int64_t i = 0; i < batch.outputs * batch.top_n; ++i) change(batch.report_top_values[i]);
  for (std::int64_t row = 0; batch.report_all != nullptr && row < batch.rows; ++row) {
    float* const values = batch.report_all + row * batch.report_all_stride;
    for (std::int64_t i = 0; i < batch.vocab; ++i) change(values[i]);
  }
}

std::vector<Mutant> ranks() {
  return {
      of_distribution_reports({"rank-constant-or-shifted",
                               "TensorRT-LLM PR #7296; vLLM PR #36746",
                               kLogprobs,
                               "the rank of every token is 1",
                               {"logprobs/*"}},
                              [](const fairdraw_batch& batch) {
                                if (batch.report_ranks == nullptr) return;
                                for (std::int64_t i = 0; i < tokens_of(batch); ++i) {
                                  if (batch.tokens[i] >= 0) batch.report_ranks[i] = 1;
                                }
                              }),
      of_reports({"rank-from-zero", "systematic", kLogprobs, "ranks count from 0", {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   if (batch.report_ranks == nullptr) return;
                   for (std::int64_t i = 0; i < tokens_of(batch); ++i) {
                     if (batch.tokens[i] >= 0) --batch.report_ranks[i];
                   }
                 }),
      mutated_integers({"rank-counts-ties-as-one",
                        "vLLM issue #34017",
                        kLogprobs,
                        "a rank counts what is larger, where it should count what is "
                        "at least as large",
                        {"logprobs/ties_at_k/*"}},
                       [](Mutation& mutation) {
                         mutation.call = [](fairdraw_batch& batch, Storage&) {
                           batch.rank_rule = 0;
                         };
                       }),
  };
}

std::vector<Mutant> top() {
  return {
      of_distribution_reports(
          {"top-n-with-the-sampled-token",
           "vLLM issue #36660",
           kLogprobs,
           "the drawn token takes the last place of the top where it is not in it",
           {"logprobs/*"}},
          [](const fairdraw_batch& batch) {
            for (std::int64_t i = 0; i < batch.outputs && batch.top_n > 0; ++i) {
              const std::int64_t at = i * batch.num_samples;
              std::int32_t* const ids = batch.report_top_ids + i * batch.top_n;
              if (std::count(ids, ids + batch.top_n, batch.tokens[at]) != 0) {
                continue;
              }
              ids[batch.top_n - 1] = batch.tokens[at];
              batch.report_top_values[(i + 1) * batch.top_n - 1] = batch.report_values[at];
            }
          }),
      of_reports({"top-n-by-row",
                  "systematic",
                  kLogprobs,
                  "with indices, the top of output i is that of output i modulo the rows",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   const std::int64_t size = batch.rows * batch.top_n;
                   for (std::int64_t i = size; i < batch.outputs * batch.top_n; ++i) {
                     batch.report_top_ids[i] = batch.report_top_ids[i % size];
                     batch.report_top_values[i] = batch.report_top_values[i % size];
                   }
                 }),
      of_reports({"top-n-filled-with-token-0",
                  "systematic",
                  kLogprobs,
                  "where less than n tokens are left, the rest of the top is token 0",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   for (std::int64_t i = 0; i < batch.outputs * batch.top_n; ++i) {
                     batch.report_top_ids[i] = std::max(0, batch.report_top_ids[i]);
                   }
                 }),
      of_reports({"top-n-at-most-20",
                  "systematic",
                  kLogprobs,
                  "no more than 20 tokens of the top are written",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   for (std::int64_t i = 0; i < batch.outputs; ++i) {
                     for (std::int32_t n = 20; n < batch.top_n; ++n) {
                       batch.report_top_ids[i * batch.top_n + n] = -1;
                       batch.report_top_values[i * batch.top_n + n] = kNone;
                     }
                   }
                 }),
  };
}

std::vector<Mutant> numbers() {
  return {
      of_reports({"logprobs-of-first-sample",
                  "vLLM issue #3632",
                  kLogprobs,
                  "all samples of an output report the value of the first",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   for (std::int64_t i = 0; i < batch.outputs; ++i) {
                     float* const of = batch.report_values + i * batch.num_samples;
                     std::fill(of + 1, of + batch.num_samples, of[0]);
                   }
                 }),
      of_reports({"logprobs-log-of-softmax",
                  "SGLang: log_softmax, not log(softmax)",
                  kLogprobs,
                  "where a probability underflows, its logarithm is -inf",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   if (!is_logprobs(static_cast<LogprobsMode>(batch.report_mode))) return;
                   // The smallest subnormal float32 is exp(-103.28).
                   change_values(batch, [](float& x) { x = x < -103.28F ? kNone : x; });
                 }),
      of_reports({"logprobs-clamped",
                  "SGLang, clip of -inf",
                  kLogprobs,
                  "-inf becomes the smallest float32",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   change_values(batch, [](float& x) {
                     x = std::max(x, -std::numeric_limits<float>::max());
                   });
                 }),
      of_reports({"logprobs-nan-for-banned",
                  "systematic",
                  kLogprobs,
                  "what is not allowed gets NaN: the difference of two infinities",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   change_values(batch, [](float& x) { x = std::isinf(x) ? NAN : x; });
                 }),
      of_distribution_reports({"logprobs-in-bfloat16",
                               "systematic",
                               kLogprobs,
                               "values pass through bfloat16",
                               {"logprobs/*"}},
                              [](const fairdraw_batch& batch) {
                                change_values(batch, [](float& x) { x = to_bf16(x); });
                              }),
      of_reports({"logprobs-of-failed-rows-stale",
                  "systematic",
                  kLogprobs,
                  "an output without a token reports the values of the one before it",
                  {"logprobs/*"}},
                 [](const fairdraw_batch& batch) {
                   for (std::int64_t i = batch.num_samples; i < tokens_of(batch); ++i) {
                     if (batch.tokens[i] != -1) continue;
                     batch.report_values[i] = batch.report_values[i - batch.num_samples];
                   }
                 }),
      mutated_integers({"logprobs-stride-ignored",
                        "systematic",
                        kLogprobs,
                        "whole rows are written without the gaps between them",
                        {"logprobs/*"}},
                       [](Mutation& mutation) {
                         mutation.call = [](fairdraw_batch& batch, Storage&) {
                           batch.report_all_stride = batch.vocab;
                         };
                       }),
  };
}

}  // namespace

std::vector<Mutant> logprob_mutants() { return joined({values(), ranks(), top(), numbers()}); }

}  // namespace fairdraw::suites
