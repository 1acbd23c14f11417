// A second implementation of logits processing, by maps and plain loops over one row, from the
// definitions in fairdraw/logits_processing.h. Precondition: the default floating-point
// environment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"
#include "reference/integer_model.h"

namespace fairdraw::reference {

/// The processing of one row, copied out of the call's buffers.
struct RowProcessing {
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) type name = neutral;
#include "fairdraw/processing_parameters.inc"

  std::vector<std::int32_t> prompt;  ///< ids of the prompt; if given as a mask, each id once
  std::vector<std::int32_t> output;
  std::optional<std::vector<std::int32_t>> output_counts;  ///< [vocab]
  std::int32_t output_length = 0;                          ///< for min_tokens

  struct Bias {
    std::int32_t id;
    float value;
  };
  std::vector<Bias> biases;
  std::vector<std::int32_t> stop_ids;
  std::vector<std::int32_t> bad_words;  ///< tokens of the bad words, one word after the other
  std::vector<std::int32_t> bad_word_lengths;
  std::vector<std::int32_t> allowed_ids;
  std::vector<std::int32_t> forced_tokens;
  std::vector<std::int32_t> dry_breakers;

  std::vector<RowStatus> outside;  ///< faults of lists that reach outside their buffers
};

/// Returns whether the row has a filter by probability, or a part of one.
bool has_probability_filter(const RowProcessing& row);
/// Returns whether the row has a rule of histories.
bool has_history_rule(const RowProcessing& row);

/// Returns the prompt and the output, one after the other.
std::vector<std::int32_t> whole_history(const RowProcessing& row);
/// Returns the ids that follow the last n - 1 ids of a history somewhere in it, oldest first: they
/// would end an n-gram that the history has already. An id below 0 equals no id. n = 0: none.
std::vector<std::int32_t> ends_of_ngrams(std::span<const std::int32_t> history, std::int32_t n);

/// Returns the number of ids that each token would repeat, if they are at least dry_allowed_length:
/// those before an earlier place of the token that equal the last ids of the history.
std::map<std::int32_t, std::size_t> repetitions(const RowProcessing& row);
/// Returns the entry of forced_tokens that is forced, if one is.
std::optional<std::int32_t> forced_token(const RowProcessing& row);
/// Returns the top_p of the row's next token, if that of the request is `top_p`. Rows with faulty
/// parameters keep it.
float decayed_top_p(const RowProcessing& row, float top_p);

/// Returns the processing of row `row` of a call. The function reads nothing outside the call's
/// buffers.
RowProcessing processing_of_row(const LogitsProcessing& processing, std::int64_t row,
                                std::size_t vocab);

struct ProcessedRow {
  RowStatus status = RowStatus::ok;
  std::vector<float> logits;  ///< [vocab], -inf for banned tokens; all -inf if the status is not ok
  /// True if float32 rounding in top_n_sigma may move a token across the threshold. With the bound
  /// of another arithmetic: also if a filter by probability may keep another set in it, or splits
  /// equal logits in an engine that sorts.
  bool undecided = false;
};

struct FilterBound;  // probability_filters.h

/// Processes a row. The bits `allowed` (packed, or empty if all tokens are allowed) are applied in
/// the step before top_n_sigma. `other` is the bound of an arithmetic other than that of the
/// definition, for `undecided`.
ProcessedRow process_row(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowProcessing& processing, const FilterBound* other = nullptr);

/// Returns the integer model of a row after logits processing.
IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowProcessing& processing, const RowParameters& parameters,
                         TieRule tie_rule = TieRule::keep_all,
                         FilterOrder filter_order = FilterOrder::top_k_first);

}  // namespace fairdraw::reference
