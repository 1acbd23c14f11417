// Declares the sampler made of the integer model, `--sampler model`, which is right by definition,
// slow, and easy to mutate. A mutant is this sampler with one step replaced by a faulty one.
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
  /// The logits and parameters of the row from which an output is drawn.
  struct Row {
    std::vector<float> logits;  ///< or the probabilities
    bool from_probs = false;
    std::vector<std::uint32_t> allowed;
    std::optional<reference::RowProcessing> processing;  ///< processing, for rows of logits only
    reference::RowParameters parameters;
    TieRule tie_rule = TieRule::keep_all;
    FilterOrder filter_order = FilterOrder::top_k_first;
  };

  // These functions are the steps of the sampler, in order; a mutant overrides one step.
  virtual std::int64_t parameters_row(const fairdraw_batch&, std::int64_t row) { return row; }
  virtual reference::IntegerRow model(const Row& row);
  /// Changes row `row` of a batch before its model is made.
  virtual void prepare(const fairdraw_batch& /*batch*/, std::int64_t /*row*/, Row& /*of*/) {}
  virtual std::int64_t seed_index(const fairdraw_batch& batch, std::int64_t output);
  /// Returns the random word of a draw. `attempt` is 0 if the row does not draw by proposals, and
  /// kAttemptsOfADraw for the draw after all proposals were rejected.
  virtual std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                             std::uint32_t attempt);
  /// Returns the random word that decides a draw: the given word if the batch has words, otherwise
  /// word().
  virtual std::uint64_t decisive_word(const fairdraw_batch& batch, std::int64_t output,
                                      std::int32_t sample, std::uint32_t attempt);
  /// Returns the token that a random word proposes, for rows that draw by proposals; the second
  /// function returns whether the row accepts this token.
  virtual std::int32_t propose(const reference::IntegerRow& row, std::uint64_t word);
  virtual bool accepts(const reference::IntegerRow& row, std::int32_t token, std::uint32_t attempt);
  /// Draws a token among the survivors of the filters.
  virtual std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word);
  /// Draws the token of a sample of an output, by the steps above.
  virtual std::int32_t draw(const fairdraw_batch& batch, const reference::IntegerRow& row,
                            std::int64_t output, std::int32_t sample);
  virtual std::int32_t report_status(RowStatus status) { return static_cast<std::int32_t>(status); }
  virtual float report_probability(const reference::IntegerRow& row, std::int32_t token);
  /// Returns the values of a row's tokens and the tokens' order, for reports of log-probabilities.
  virtual reference::RealLogprobs report_values(const Row& row, const reference::IntegerRow& result,
                                                LogprobsMode mode);
  virtual void finish(const fairdraw_batch&) {}  ///< runs last, in the caller's float environment

  SamplerDescription description_;

 private:
  // Prefix sums of a row's weights, which draws search for a token.
  struct Sums {
    const reference::IntegerRow* row = nullptr;
    std::vector<reference::RowWeight> prefix;

    std::int32_t token_for(std::uint64_t word) const;
  };

  void sample(const fairdraw_batch& batch);
  void report(const fairdraw_batch& batch, const std::vector<Row>& rows,
              const std::vector<reference::IntegerRow>& results);

  Sums chosen_from_, proposed_from_;  // kept for the last row, because draws often share a row
};

}  // namespace fairdraw::harness
