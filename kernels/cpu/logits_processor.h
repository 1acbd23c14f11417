// Logits processing of one row (fairdraw/logits_processing.h, common/processing_rules.h), as a list
// of edits: the tokens whose logit differs from the caller's, each with its new value.
//
// Cost. Histories, biases, bad words and stop ids take time in proportion to their lengths,
// whatever the size of the vocabulary. A dense prompt_mask takes one read of its words, and dense
// output_counts one read of the counts. The function write() copies the row once, and is not needed
// if nothing changes. In the copy, top_n_sigma reads the row three times. A filter by probability
// lists the tokens that are left with their weights, which takes most of its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/dynamic_temperature.h"
#include "common/processing_rules.h"
#include "cpu/passes/passes.h"

namespace fairdraw::cpu {

/// Consecutive tokens of a larger vocabulary to which the values of a row belong, such as a shard's
/// columns. In this case, arrays with one value per token (prompt_mask, output_counts, the packed
/// mask) cover only these tokens, while lists contain ids of the whole vocabulary. The default
/// range is the whole vocabulary.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t vocab = 0;  ///< size of the whole vocabulary, or 0 if the row has the whole
                           ///< vocabulary
};

/// Memory of the filters by probability.
struct FilterMemory {
  struct Place {
    std::uint32_t place;
    std::uint64_t amount;
    uint128_t distance;  ///< times the weight
  };
  std::vector<WeighedToken> tokens;  ///< those that are left when a filter begins
  std::vector<std::size_t> ids;      ///< their ids
  std::vector<Place> places;         ///< those among which a place is searched
};

class LogitsProcessor {
 public:
  /// Computes the edits of `row` for the tokens in `range`; x has their n logits. Returns the first
  /// error of the row's lists, or processing_overflow. Faults of the row's values take precedence,
  /// so if the status is not ok, the caller must check all values.
  RowStatus prepare(const LogitsProcessing& processing, std::int64_t row, const float* x,
                    std::size_t n, const TokenRange& range = {});

  /// Returns whether the processed row differs from x.
  bool changes() const {
    return !edits_.empty() || allowed_ids_.length > 0 || top_n_sigma_is_on(top_n_sigma_) ||
           filters_.are_on();
  }

  /// Returns the temperature of the row that was written last, if its request's is `temperature`.
  float temperature_now(float temperature) const {
    return dynamic_temperature(temperature, filters_, entropy_share_);
  }

  /// Writes the processed row; the bits `allowed`, which may be null, are applied in the step
  /// before top_n_sigma. `out` may be x. Returns the scan of x, because the processed row may no
  /// longer contain a NaN or +inf of x.
  RowScan write(const Passes& passes, const float* x, std::size_t n, const std::uint32_t* allowed,
                float* out);

 private:
  struct Edit {
    std::int32_t id;     // id of the token, counted from the first id of the range
    std::int32_t count;  // in the output, and in the prompt if the row counts it
    float value;
    bool has_bias;
  };

  void clear(std::size_t n);
  bool is_here(std::int32_t token) const { return token >= begin_ && token - begin_ < n_; }
  std::int32_t id_of(std::int32_t token) const { return static_cast<std::int32_t>(token - begin_); }
  Edit& edit_of(std::int32_t id);
  float value_of(std::int32_t id) const;
  void ban(std::int32_t token);

  RowStatus tally_histories(const LogitsProcessing& processing, std::int64_t row,
                            const ProcessingParameters& parameters);
  bool tally_counts(const std::int32_t* counts);
  void tally_mask(const std::uint32_t* words);
  void apply_penalties(const ProcessingParameters& parameters);
  RowStatus apply_bias(const LogitsProcessing& processing, std::int64_t row);
  void penalise_repetitions(const History& history, const RowList& breakers,
                            const HistoryRules& rules);
  RowStatus ban_stop_ids(const LogitsProcessing& processing, std::int64_t row,
                         const ProcessingParameters& parameters);
  RowStatus ban_bad_words(const LogitsProcessing& processing, std::int64_t row);
  void ban_repeated_ngrams(const History& history, std::int32_t n);
  RowStatus keep_allowed_ids(const LogitsProcessing& processing, std::int64_t row,
                             const History& history, const HistoryRules& rules);
  static RowList forced_now(const History& history, const HistoryRules& rules,
                            const RowList& forced);
  RowScan write_edits(const Passes& passes, const float* x, std::size_t n,
                      const std::uint32_t* allowed, float* out);

  const float* x_ = nullptr;
  std::int64_t n_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t vocab_ = 0;
  bool overflow_ = false;
  float top_n_sigma_ = 0.0F;
  ProbabilityFilters filters_;
  double entropy_share_ = 1.0;
  RowList allowed_ids_;
  std::vector<Edit> edits_;
  std::vector<std::uint32_t> slot_;  // for each token, 1 + the position of its edit in edits_, or 0
                                     // if the token has no edit
  std::vector<std::pair<std::int32_t, std::int32_t>> repeated_;  // ids and how many they repeat
  std::vector<float> kept_;  // values of the tokens in allowed_ids_
  FilterMemory filter_memory_;
};

}  // namespace fairdraw::cpu
