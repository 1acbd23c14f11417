// Declares the sampler `model` with the calls of serving: the model accepts drafts and keeps
// requests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/adapters/model_sampler.h"
#include "harness/contract/serving.h"
#include "harness/run/calls/speculation_request.h"

namespace fairdraw::harness {

class ServingModel : public Serves<ModelSampler> {
 public:
  ServingModel();
  std::string run_chain(const fairdraw_chain& chain) override;
  std::string run_speculation(const fairdraw_verification& speculation) override;
  std::string run_event(const fairdraw_event& event) override;

 protected:
  /// A request of a running batch as it was given, with the changes of all steps since.
  struct KeptRequest {
    reference::RowParameters parameters;
    std::uint64_t seed = 0, offset = 0;
    std::optional<reference::RowProcessing> processing;
  };
  std::vector<std::optional<KeptRequest>> kept_;  ///< by slot

  // Mutants override these steps, as they override the steps of ModelSampler. / Returns a random
  // word of a chain. The argument `purpose` is accept, recover or bonus.
  virtual std::uint64_t chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                   std::uint32_t index);
  /// Accepts or rejects the drafts of one drafted chain of the batch.
  virtual reference::ChainOutcome accept_chain(std::span<const float> draft_probs,
                                               std::span<const std::int32_t> draft_tokens,
                                               std::span<const float> target_probs,
                                               std::size_t vocab,
                                               std::span<const std::uint64_t> accept_words,
                                               std::span<const std::uint64_t> recover_words,
                                               std::uint64_t bonus_word);
  void prepare(const fairdraw_batch& batch, std::int64_t row, Row& of) override;
  std::int32_t draw(const fairdraw_batch& batch, const reference::IntegerRow& row,
                    std::int64_t output, std::int32_t sample) override;
  /// Changes the word by which a key marks a token.
  virtual std::uint64_t word_of_mark(std::uint64_t word) { return word; }
  /// Accepts or rejects with drafts. A mutant may change the argument `request`.
  virtual reference::SpeculationOutcome accept_drafts(DraftedTokens& request);

 private:
  std::string step(const fairdraw_event& event);
};

}  // namespace fairdraw::harness
