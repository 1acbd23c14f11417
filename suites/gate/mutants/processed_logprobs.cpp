// Log-probabilities of rows with logits processing: which modes see it, whose it is, and in which
// order tokens stand then.
#include <algorithm>
#include <cmath>
#include <limits>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;
using Result = MutatedModel::Result;
using reference::RealLogprobs;
using reference::RowProcessing;

constexpr float kNone = -std::numeric_limits<float>::infinity();

Mutant of_values(const char* name, const char* source, const char* wrong,
                 RealLogprobs (*values)(const Row&, const Result&, LogprobsMode)) {
  return mutated_integers({name, source, "logprobs", wrong, {"logprobs/*/processed*"}},
                          [values](Mutation& mutation) { mutation.report_values = values; });
}

// The row's logits behind `processing`; as they came where that is not possible.
std::vector<float> processed_by(const Row& row, const RowProcessing& processing) {
  const reference::ProcessedRow processed =
      reference::process_row(row.logits, row.allowed, processing);
  return processed.status == RowStatus::ok ? processed.logits : row.logits;
}

RowProcessing processing_of(const Row& row) {
  return row.processing ? *row.processing : RowProcessing{};
}

RealLogprobs right(const Row& row, const Result& result, LogprobsMode mode) {
  if (is_raw(mode)) return reference::real_log_probabilities(row.logits, {}, mode, 1);
  return reference::real_log_probabilities(processed_by(row, processing_of(row)), result.mask, mode,
                                           row.parameters.temperature);
}

// Processed modes behind a processing that lacks something. What is drawn is right, so every token
// of the support keeps a value.
template <class Forget>
RealLogprobs without(const Row& row, const Result& result, LogprobsMode mode, Forget forget) {
  if (is_raw(mode)) return right(row, result, mode);
  RowProcessing less = processing_of(row);
  forget(less);
  return reference::real_log_probabilities(processed_by(row, less), result.mask, mode,
                                           row.parameters.temperature);
}

RealLogprobs raw_behind_everything(const Row& row, const Result& result, LogprobsMode mode) {
  if (!is_raw(mode)) return right(row, result, mode);
  return reference::real_log_probabilities(processed_by(row, processing_of(row)), {}, mode, 1);
}

RealLogprobs raw_behind_bans(const Row& row, const Result& result, LogprobsMode mode) {
  if (!is_raw(mode)) return right(row, result, mode);
  std::vector<float> banned = processed_by(row, processing_of(row));
  for (std::size_t id = 0; id < banned.size(); ++id) {
    if (banned[id] != kNone) banned[id] = row.logits[id];
  }
  return reference::real_log_probabilities(banned, {}, mode, 1);
}

RealLogprobs raw_behind_penalties(const Row& row, const Result& result, LogprobsMode mode) {
  if (!is_raw(mode)) return right(row, result, mode);
  RowProcessing penalties = processing_of(row);
  penalties.biases.clear();
  penalties.stop_ids.clear();
  penalties.bad_words.clear();
  penalties.bad_word_lengths.clear();
  penalties.allowed_ids.clear();
  Row everything = row;
  everything.allowed.clear();
  return reference::real_log_probabilities(processed_by(everything, penalties), {}, mode, 1);
}

RealLogprobs processed_without_processing(const Row& row, const Result& result, LogprobsMode mode) {
  return without(row, result, mode, [](RowProcessing& less) { less = {}; });
}

RealLogprobs processed_without_bias(const Row& row, const Result& result, LogprobsMode mode) {
  return without(row, result, mode, [](RowProcessing& less) { less.biases.clear(); });
}

RealLogprobs processed_without_output(const Row& row, const Result& result, LogprobsMode mode) {
  return without(row, result, mode, [](RowProcessing& less) {
    less.output.clear();
    less.output_counts.reset();
  });
}

RealLogprobs processed_twice(const Row& row, const Result& result, LogprobsMode mode) {
  if (is_raw(mode)) return right(row, result, mode);
  Row again = row;
  again.logits = processed_by(row, processing_of(row));
  return right(again, result, mode);
}

// Values of the processed row, in the order of the one that came.
RealLogprobs order_of_raw(const Row& row, const Result& result, LogprobsMode mode) {
  RealLogprobs values = right(row, result, mode);
  if (is_raw(mode)) return values;
  std::stable_sort(
      values.order.begin(), values.order.end(), [&row](std::int32_t a, std::int32_t b) {
        return row.logits[static_cast<std::size_t>(a)] > row.logits[static_cast<std::size_t>(b)];
      });
  return values;
}

RealLogprobs rank_of_raw(const Row& row, const Result& result, LogprobsMode mode) {
  RealLogprobs values = right(row, result, mode);
  if (!is_raw(mode)) values.logits = row.logits;
  return values;
}

}  // namespace

std::vector<Mutant> processed_logprob_mutants() {
  return {
      of_values("raw-logprobs-after-processing", "vLLM, penalties applied in place",
                "penalties, bias and bans are applied in place, before raw values are taken",
                raw_behind_everything),
      of_values("raw-logprobs-after-min-tokens", "systematic",
                "raw values are taken behind all bans: stop ids, bad words, allowed ids",
                raw_behind_bans),
      of_values("raw-logprobs-after-penalties", "systematic",
                "raw values are taken behind the three penalties", raw_behind_penalties),
      of_values("processed-logprobs-before-processing", "systematic",
                "processed values know temperature, filters and bitmask alone",
                processed_without_processing),
      of_values("processed-logprobs-without-bias", "systematic",
                "processed values lack the logit bias", processed_without_bias),
      of_values("processed-logprobs-of-the-prompt", "systematic",
                "processed values are penalised for the prompt's tokens alone",
                processed_without_output),
      of_values("processed-logprobs-twice", "systematic",
                "processed values are those of a row that was processed twice", processed_twice),
      of_values("processed-top-n-in-raw-order", "systematic",
                "the largest tokens of the processed row are listed in the order of the raw one",
                order_of_raw),
      of_values("processed-ranks-of-raw-logits", "systematic",
                "ranks of processed modes compare the logits that came", rank_of_raw),
  };
}

}  // namespace fairdraw::suites
