// A sampler made of the integer model: right by definition, slow, and easy to mutate. Mutants are
// this sampler with one step overridden. `--sampler model`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "reference/integer_model.h"
#include "reference/log_probabilities.h"
#include "reference/processing_model.h"

namespace fairdraw::harness {

class ModelSampler : public Sampler {
 public:
  ModelSampler();
  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override;

 protected:
  /// The row of logits and the parameters that output `row` is computed from.
  struct Row {
    std::vector<float> logits;  ///< or probabilities
    bool from_probs = false;
    std::vector<std::uint32_t> allowed;
    std::optional<reference::RowProcessing> processing;  ///< of logits
    reference::RowParameters parameters;
    TieRule tie_rule = TieRule::keep_all;
    FilterOrder filter_order = FilterOrder::top_k_first;
  };

  // Steps, in order; a mutant overrides one.
  virtual std::int64_t parameters_row(const fairdraw_batch&, std::int64_t row) { return row; }
  virtual reference::IntegerRow model(const Row& row);
  virtual std::int64_t seed_index(const fairdraw_batch& batch, std::int64_t output);
  /// `attempt`: 0 where nothing is proposed, kAttemptsOfADraw where no proposal was accepted.
  virtual std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                             std::uint32_t attempt);
  /// The word that decides: the given one where the batch has words, else word().
  virtual std::uint64_t decisive_word(const fairdraw_batch& batch, std::int64_t output,
                                      std::int32_t sample, std::uint32_t attempt);
  /// Token that a word proposes, and whether the row takes it; of rows that propose.
  virtual std::int32_t propose(const reference::IntegerRow& row, std::uint64_t word);
  virtual bool accepts(const reference::IntegerRow& row, std::int32_t token, std::uint32_t attempt);
  /// Token among the survivors.
  virtual std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word);
  virtual std::int32_t report_status(RowStatus status) { return static_cast<std::int32_t>(status); }
  virtual float report_probability(const reference::IntegerRow& row, std::int32_t token);
  /// Values and order of a row's tokens.
  virtual reference::RealLogprobs report_values(const Row& row, const reference::IntegerRow& result,
                                                LogprobsMode mode);
  virtual void finish(const fairdraw_batch&) {}  ///< in the caller's float environment

  SamplerDescription description_;

 private:
  // Prefix sums of a row's weights, of which a draw takes one token.
  struct Sums {
    const reference::IntegerRow* row = nullptr;
    std::vector<reference::RowWeight> prefix;

    std::int32_t token_for(std::uint64_t word) const;
  };

  void sample(const fairdraw_batch& batch);
  std::int32_t draw(const fairdraw_batch& batch, const reference::IntegerRow& row,
                    std::int64_t output, std::int32_t sample);
  void report(const fairdraw_batch& batch, const std::vector<Row>& rows,
              const std::vector<reference::IntegerRow>& results);

  Sums chosen_from_, proposed_from_;  // of the last row: draws often share one
};

}  // namespace fairdraw::harness
