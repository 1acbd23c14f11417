// Mutants of log-probabilities in the forms that engines report, with wrong rows, values, ranks or
// orders.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using reference::RealLogprobs;

std::vector<float> without_banned(const Row& row) {
  std::vector<float> logits = row.logits;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (!is_allowed(row, id)) logits[id] = kOut;
  }
  return logits;
}

RealLogprobs right(const Row& row, const Result& result, LogprobsMode mode) {
  if (is_raw(mode)) {
    return reference::real_log_probabilities(row.logits, {}, mode, row.parameters.temperature);
  }
  return reference::real_log_probabilities(without_banned(row), result.mask, mode,
                                           row.parameters.temperature);
}

constexpr Entry kValues[] = {
    {"raw-logprobs-after-filters", "vLLM issue #9453",
     "what is declared raw is reported after temperature and filters",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (mode == LogprobsMode::raw_logprobs) mode = LogprobsMode::processed_logprobs;
       return right(row, result, mode);
     }},
    {"raw-logprobs-at-temperature", "SGLang, default",
     "raw log-probabilities are those at the row's temperature",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (mode != LogprobsMode::raw_logprobs) return right(row, result, mode);
       return reference::real_log_probabilities(row.logits, {}, LogprobsMode::processed_logprobs,
                                                row.parameters.temperature);
     }},
    {"raw-logprobs-after-bans", "vLLM, apply_grammar_bitmask",
     "the bitmask is applied in place, before raw values are taken", By("logprobs/*/banned"),
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (!is_raw(mode)) return right(row, result, mode);
       return reference::real_log_probabilities(without_banned(row), {}, mode, 1);
     }},
    {"processed-logprobs-not-renormalised",
     "processed log-probabilities are masked behind the softmax, not before it",
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
     }},
    {"processed-logits-undivided", "processed logits are not divided by the temperature",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (mode != LogprobsMode::processed_logits) return right(row, result, mode);
       return reference::real_log_probabilities(without_banned(row), result.mask, mode, 1);
     }},
    {"top-n-ties-by-last-id", "of equal values the largest id comes first",
     By("logprobs/ties_at_k/*"),
     [](const Row& row, const Result& result, LogprobsMode mode) {
       RealLogprobs values = right(row, result, mode);
       std::ranges::reverse(values.order);
       std::ranges::stable_sort(values.order, [&values](std::int32_t a, std::int32_t b) {
         return values.logits[static_cast<std::size_t>(a)] >
                values.logits[static_cast<std::size_t>(b)];
       });
       return values;
     }},
};

std::int64_t tokens_of(const fairdraw_batch& batch) { return batch.outputs * batch.num_samples; }

// Changes every reported value: the values of tokens, of the top n, and of whole rows.
void change_values(const fairdraw_batch& batch, void (*change)(float&)) {
  for (std::int64_t i = 0; i < tokens_of(batch); ++i) change(batch.report_values[i]);
  for (std::int64_t i = 0; i < batch.outputs * batch.top_n; ++i) change(batch.report_top_values[i]);
  for (std::int64_t row = 0; batch.report_all != nullptr && row < batch.rows; ++row) {
    float* const values = batch.report_all + row * batch.report_all_stride;
    for (std::int64_t i = 0; i < batch.vocab; ++i) change(values[i]);
  }
}

// Restricts the mutation to calls that report log-probabilities.
void where_reported(Mutation& mutation) {
  if (!mutation.finish) return;
  mutation.finish = [change = mutation.finish](const fairdraw_batch& batch) {
    if (batch.report_values != nullptr) change(batch);
  };
}

constexpr Entry kReports[] = {
    {"rank-constant-or-shifted", "TensorRT-LLM PR #7296; vLLM PR #36746",
     "the rank of every token is 1", Base::distribution,
     [](const fairdraw_batch& batch) {
       if (batch.report_ranks == nullptr) return;
       for (std::int64_t i = 0; i < tokens_of(batch); ++i) {
         if (batch.tokens[i] >= 0) batch.report_ranks[i] = 1;
       }
     }},
    {"rank-from-zero", "ranks count from 0",
     [](const fairdraw_batch& batch) {
       if (batch.report_ranks == nullptr) return;
       for (std::int64_t i = 0; i < tokens_of(batch); ++i) {
         if (batch.tokens[i] >= 0) --batch.report_ranks[i];
       }
     }},
    {"rank-counts-ties-as-one", "vLLM issue #34017",
     "a rank counts what is larger, where it should count what is at least as large",
     By("logprobs/ties_at_k/*"), [](fairdraw_batch& batch) { batch.rank_rule = 0; }},
    {"top-n-with-the-sampled-token", "vLLM issue #36660",
     "the drawn token takes the last place of the top where it is not in it", Base::distribution,
     [](const fairdraw_batch& batch) {
       for (std::int64_t i = 0; i < batch.outputs && batch.top_n > 0; ++i) {
         const std::int64_t at = i * batch.num_samples;
         std::int32_t* const ids = batch.report_top_ids + i * batch.top_n;
         if (std::count(ids, ids + batch.top_n, batch.tokens[at]) != 0) continue;
         ids[batch.top_n - 1] = batch.tokens[at];
         batch.report_top_values[(i + 1) * batch.top_n - 1] = batch.report_values[at];
       }
     }},
    {"top-n-by-row", "with indices, the top of output i is that of output i modulo the rows",
     [](const fairdraw_batch& batch) {
       const std::int64_t size = batch.rows * batch.top_n;
       for (std::int64_t i = size; i < batch.outputs * batch.top_n; ++i) {
         batch.report_top_ids[i] = batch.report_top_ids[i % size];
         batch.report_top_values[i] = batch.report_top_values[i % size];
       }
     }},
    {"top-n-filled-with-token-0",
     "where less than n tokens are left, the rest of the top is token 0",
     [](const fairdraw_batch& batch) {
       for (std::int64_t i = 0; i < batch.outputs * batch.top_n; ++i) {
         batch.report_top_ids[i] = std::max(0, batch.report_top_ids[i]);
       }
     }},
    {"top-n-at-most-20", "no more than 20 tokens of the top are written",
     [](const fairdraw_batch& batch) {
       for (std::int64_t i = 0; i < batch.outputs; ++i) {
         for (std::int32_t n = 20; n < batch.top_n; ++n) {
           batch.report_top_ids[i * batch.top_n + n] = -1;
           batch.report_top_values[i * batch.top_n + n] = kOut;
         }
       }
     }},
    {"logprobs-of-first-sample", "vLLM issue #3632",
     "all samples of an output report the value of the first",
     [](const fairdraw_batch& batch) {
       for (std::int64_t i = 0; i < batch.outputs; ++i) {
         float* const of = batch.report_values + i * batch.num_samples;
         std::fill(of + 1, of + batch.num_samples, of[0]);
       }
     }},
    {"logprobs-log-of-softmax", "SGLang: log_softmax, not log(softmax)",
     "where a probability underflows, its logarithm is -inf",
     [](const fairdraw_batch& batch) {
       if (!is_logprobs(static_cast<LogprobsMode>(batch.report_mode))) return;
       // The smallest subnormal float32 is exp(-103.28).
       change_values(batch, [](float& x) { x = x < -103.28F ? kOut : x; });
     }},
    {"logprobs-clamped", "SGLang, clip of -inf", "-inf becomes the smallest float32",
     [](const fairdraw_batch& batch) {
       change_values(batch, [](float& x) { x = std::max(x, -std::numeric_limits<float>::max()); });
     }},
    {"logprobs-nan-for-banned", "what is not allowed gets NaN: the difference of two infinities",
     [](const fairdraw_batch& batch) {
       change_values(batch, [](float& x) { x = std::isinf(x) ? NAN : x; });
     }},
    {"logprobs-in-bfloat16", "values pass through bfloat16", Base::distribution,
     [](const fairdraw_batch& batch) { change_values(batch, [](float& x) { x = to_bf16(x); }); }},
    {"logprobs-of-failed-rows-stale",
     "an output without a token reports the values of the one before it",
     [](const fairdraw_batch& batch) {
       for (std::int64_t i = batch.num_samples; i < tokens_of(batch); ++i) {
         if (batch.tokens[i] != -1) continue;
         batch.report_values[i] = batch.report_values[i - batch.num_samples];
       }
     }},
    {"logprobs-stride-ignored", "whole rows are written without the gaps between them",
     [](fairdraw_batch& batch) { batch.report_all_stride = batch.vocab; }},
};

// --- Rows with logits processing: which modes use it, of which row, and the order of tokens -----

using reference::RowProcessing;

// Returns the row's logits after `processing`, or the input logits if processing fails.
std::vector<float> processed_by(const Row& row, const RowProcessing& processing) {
  const reference::ProcessedRow processed =
      reference::process_row(row.logits, row.allowed, processing);
  return processed.status == RowStatus::ok ? processed.logits : row.logits;
}

RowProcessing processing_of(const Row& row) {
  return row.processing ? *row.processing : RowProcessing{};
}

RealLogprobs right_processed(const Row& row, const Result& result, LogprobsMode mode) {
  if (is_raw(mode)) return reference::real_log_probabilities(row.logits, {}, mode, 1);
  return reference::real_log_probabilities(processed_by(row, processing_of(row)), result.mask, mode,
                                           row.parameters.temperature);
}

// Returns the log-probabilities that processed modes report after incomplete processing. The draw
// itself is right, so every token of the support keeps a value.
template <class Forget>
RealLogprobs without(const Row& row, const Result& result, LogprobsMode mode, Forget forget) {
  if (is_raw(mode)) return right_processed(row, result, mode);
  RowProcessing less = processing_of(row);
  forget(less);
  return reference::real_log_probabilities(processed_by(row, less), result.mask, mode,
                                           row.parameters.temperature);
}

constexpr Entry kProcessed[] = {
    {"raw-logprobs-after-processing", "vLLM, penalties applied in place",
     "penalties, bias and bans are applied in place, before raw values are taken",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (!is_raw(mode)) return right_processed(row, result, mode);
       return reference::real_log_probabilities(processed_by(row, processing_of(row)), {}, mode, 1);
     }},
    {"raw-logprobs-after-min-tokens",
     "raw values are taken behind all bans: stop ids, bad words, allowed ids",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (!is_raw(mode)) return right_processed(row, result, mode);
       std::vector<float> banned = processed_by(row, processing_of(row));
       for (std::size_t id = 0; id < banned.size(); ++id) {
         if (banned[id] != kOut) banned[id] = row.logits[id];
       }
       return reference::real_log_probabilities(banned, {}, mode, 1);
     }},
    {"raw-logprobs-after-penalties", "raw values are taken behind the three penalties",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (!is_raw(mode)) return right_processed(row, result, mode);
       RowProcessing penalties = processing_of(row);
       penalties.biases.clear();
       penalties.stop_ids.clear();
       penalties.bad_words.clear();
       penalties.bad_word_lengths.clear();
       penalties.allowed_ids.clear();
       Row everything = row;
       everything.allowed.clear();
       return reference::real_log_probabilities(processed_by(everything, penalties), {}, mode, 1);
     }},
    {"processed-logprobs-before-processing",
     "processed values know temperature, filters and bitmask alone",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       return without(row, result, mode, [](RowProcessing& less) { less = {}; });
     }},
    {"processed-logprobs-without-bias", "processed values lack the logit bias",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       return without(row, result, mode, [](RowProcessing& less) { less.biases.clear(); });
     }},
    {"processed-logprobs-of-the-prompt",
     "processed values are penalised for the prompt's tokens alone",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       return without(row, result, mode, [](RowProcessing& less) {
         less.output.clear();
         less.output_counts.reset();
       });
     }},
    {"processed-logprobs-twice", "processed values are those of a row that was processed twice",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       if (is_raw(mode)) return right_processed(row, result, mode);
       Row again = row;
       again.logits = processed_by(row, processing_of(row));
       return right_processed(again, result, mode);
     }},
    {"processed-top-n-in-raw-order",
     "the largest tokens of the processed row are listed in the order of the raw one",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       RealLogprobs values = right_processed(row, result, mode);
       if (is_raw(mode)) return values;
       const auto logit = [&row](std::int32_t id) {
         return row.logits[static_cast<std::size_t>(id)];
       };
       std::ranges::stable_sort(values.order, std::greater<>(), logit);
       return values;
     }},
    {"processed-ranks-of-raw-logits", "ranks of processed modes compare the logits that came",
     [](const Row& row, const Result& result, LogprobsMode mode) {
       RealLogprobs values = right_processed(row, result, mode);
       if (!is_raw(mode)) values.logits = row.logits;
       return values;
     }},
};

}  // namespace

std::vector<Mutant> logprob_mutants() {
  return joined({mutants_of("logprobs", "logprobs/*", Base::integers, kValues),
                 mutants_of("logprobs", "logprobs/*", Base::integers, kReports, where_reported)});
}

std::vector<Mutant> processed_logprob_mutants() {
  return mutants_of("logprobs", "logprobs/*/processed*", Base::integers, kProcessed);
}

}  // namespace fairdraw::suites
