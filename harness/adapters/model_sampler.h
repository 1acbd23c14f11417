// A sampler made of the integer model: right by definition, slow, and easy to mutate. Mutants are
// this sampler with one step overridden. `--sampler model`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/calls/speculation_request.h"
#include "reference/integer_model.h"
#include "reference/log_probabilities.h"
#include "reference/processing_model.h"

namespace fairdraw::harness {

class ModelSampler : public Sampler {
 public:
  ModelSampler();
  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override;
  std::string run_chain(const fairdraw_chain& chain) override;
  std::string run_speculation(const fairdraw_verification& speculation) override;
  std::string run_event(const fairdraw_event& event) override;

 protected:
  /// A request of a running batch, as it was given, and what steps have made of it since.
  struct KeptRequest {
    reference::RowParameters parameters;
    std::uint64_t seed = 0, offset = 0;
    std::optional<reference::RowProcessing> processing;
  };
  std::vector<std::optional<KeptRequest>> kept_;  ///< by slot

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
  virtual std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index);
  /// The word that decides: the given one where the batch has words, else word().
  virtual std::uint64_t decisive_word(const fairdraw_batch& batch, std::int64_t output,
                                      std::int32_t sample);
  virtual std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word);
  virtual std::int32_t report_status(RowStatus status) { return static_cast<std::int32_t>(status); }
  virtual float report_probability(const reference::IntegerRow& row, std::int32_t token);
  /// Values and order of a row's tokens.
  virtual reference::RealLogprobs report_values(const Row& row, const reference::IntegerRow& result,
                                                LogprobsMode mode);
  /// Random words of a chain, in the purposes accept, recover and bonus.
  virtual std::uint64_t chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                   std::uint32_t index);
  /// One chain of the batch.
  virtual reference::ChainOutcome verify(std::span<const float> draft_probs,
                                         std::span<const std::int32_t> draft_tokens,
                                         std::span<const float> target_probs, std::size_t vocab,
                                         std::span<const std::uint64_t> accept_words,
                                         std::span<const std::uint64_t> recover_words,
                                         std::uint64_t bonus_word);
  /// One request of a speculation call, which it may change.
  virtual reference::SpeculationOutcome verify_request(DraftedTokens& request);
  virtual void finish(const fairdraw_batch&) {}  ///< in the caller's float environment

  SamplerDescription description_;

 private:
  void sample(const fairdraw_batch& batch);
  std::string step(const fairdraw_event& event);
  void report(const fairdraw_batch& batch, const std::vector<Row>& rows,
              const std::vector<reference::IntegerRow>& results);

  // Prefix sums of the row that the last token was chosen from: draws often share one.
  const reference::IntegerRow* drawn_ = nullptr;
  std::vector<reference::RowWeight> prefix_;
};

}  // namespace fairdraw::harness
