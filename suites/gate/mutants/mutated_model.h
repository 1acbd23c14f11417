// The integer model with one mutated step is the base of mutants with errors of logic. Steps that a
// Mutation does not set are right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/adapters/serving_model.h"

namespace fairdraw::suites {

/// Storage for the arrays of a mutated call, which live until the next call.
class Storage {
 public:
  template <class T>
  T* keep(std::vector<T> values) {
    const auto owner = std::make_shared<std::vector<T>>(std::move(values));
    owners_.push_back(owner);
    return owner->data();
  }
  void clear() { owners_.clear(); }

 private:
  std::vector<std::shared_ptr<void>> owners_;
};

/// A call, and the number of one of its rows.
struct Place {
  const fairdraw_batch* call = nullptr;
  std::int64_t row = 0;
};

/// The values from which the random word of a draw follows.
struct WordKey {
  std::uint64_t seed, offset;
  std::uint32_t index, attempt;
  std::int64_t output;
  const fairdraw_batch* call;
};

using reference::RowWeight;
using RowWeights = std::vector<RowWeight>;

/// The weights from which tokens are drawn, as prefix sums in the order of ids.
struct DrawWeights {
  RowWeights prefix;

  std::int64_t vocab() const { return static_cast<std::int64_t>(prefix.size()); }
  RowWeight total() const { return prefix.empty() ? 0 : prefix.back(); }
  /// floor(word * total / 2^64)
  RowWeight position(std::uint64_t word) const;
  /// Returns the first token whose prefix sum exceeds `position`, or vocab() if none does.
  std::int32_t token_at(RowWeight position) const;
};

/// A token that an attempt of a draw proposes.
struct Proposal {
  const reference::IntegerRow& row;
  std::int32_t token;
  std::uint32_t attempt;
  reference::RowParameters parameters;

  bool survives() const { return row.mask[static_cast<std::size_t>(token)] != 0; }
};

struct Chain {
  std::vector<float> draft_probs, target_probs;  ///< [n, vocab], [n + 1, vocab]
  std::vector<std::int32_t> draft_tokens;        ///< [n]
  std::size_t vocab = 0;
  std::vector<std::uint64_t> accept_words, recover_words;  ///< [n]
  std::uint64_t bonus_word = 0;

  float* draft_row(std::size_t i) { return draft_probs.data() + i * vocab; }
  float* target_row(std::size_t i) { return target_probs.data() + i * vocab; }
};

class MutatedModel final : public harness::ServingModel {
 public:
  using Row = harness::ServingModel::Row;
  using Result = reference::IntegerRow;

  /// The steps that a mutant may replace, in the order of a call. A step that is not set is right.
  struct Mutation {
    /// Returns the reason why the call is rejected, or an empty string.
    std::function<std::string(const fairdraw_batch&)> refuse;
    std::function<void(fairdraw_batch&, Storage&)> call;
    /// Returns the number of the row whose parameters row `row` gets.
    std::function<std::int64_t(const fairdraw_batch&, std::int64_t row)> parameters_row;
    /// Changes a row before it is processed.
    std::function<void(Row&, const Place&)> row;
    /// Changes the result of a row before it is reported and drawn from.
    std::function<void(Result&, const Row&, const Place&)> result;
    /// Changes the weights [vocab] for drawing (0: the token is not drawn), but not the reported
    /// weights. All other tokens are proposed with their own weights, and are not accepted.
    std::function<void(RowWeights&, const Result&)> weights;
    std::function<std::int64_t(const fairdraw_batch&, std::int64_t output)> seed_index;
    std::function<std::uint64_t(const WordKey&)> word;
    /// Returns the token for a random word: a proposed token, or one of the survivors.
    std::function<std::int32_t(const DrawWeights&, std::uint64_t word)> pick;
    /// Returns whether an attempt accepts its proposed token.
    std::function<bool(const Proposal&)> accepts;
    /// Changes the word by which a key marks a token.
    std::function<std::uint64_t(std::uint64_t word)> word_of_mark;
    std::function<std::int32_t(RowStatus)> status;
    std::function<float(const Result&, std::int32_t token)> probability;
    /// Returns the log-probabilities of a row's tokens, and their order.
    std::function<reference::RealLogprobs(const Row&, const Result&, LogprobsMode)> report_values;
    /// Changes the results of a call, in the caller's floating-point environment.
    std::function<void(const fairdraw_batch&)> finish;

    std::function<void(fairdraw_chain&, Storage&)> chain_call;
    std::function<std::uint64_t(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                std::uint32_t index)>
        chain_word;
    std::function<void(Chain&)> chain;
    std::function<void(reference::ChainOutcome&, const Chain&)> chain_accepted;

    std::function<void(fairdraw_verification&, Storage&)> speculation_call;
    /// The functions below change a request with drafted tokens before it is run, or the
    /// outcome of the verification.
    std::function<void(harness::DraftedTokens&)> drafted;
    std::function<void(reference::SpeculationOutcome&, const harness::DraftedTokens&)> accepted;
  };

  /// The claim of the sampler. `integers` claims the exact arithmetic, so that one wrong bit is
  /// visible. `distribution` claims only the right distribution, so that only checks of the
  /// distribution and relations between calls can detect a bug. `generator` claims the right
  /// distribution from the sampler's own stream of random words, which does not depend on the
  /// seeds, so that no draw can be repeated. The stream starts from entropy.
  /// Mutation.word gets this entropy as the seed, and the number of the draw as the offset.
  enum class Claim { integers, distribution, generator };

  MutatedModel(Claim claim, Mutation mutation);
  std::string run(const fairdraw_batch& batch) override;
  std::string run_chain(const fairdraw_chain& chain) override;
  std::string run_speculation(const fairdraw_verification& speculation) override;

 protected:
  std::int64_t parameters_row(const fairdraw_batch& batch, std::int64_t row) override;
  reference::IntegerRow model(const Row& row) override;
  std::int64_t seed_index(const fairdraw_batch& batch, std::int64_t output) override;
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t attempt) override;
  std::uint64_t decisive_word(const fairdraw_batch& batch, std::int64_t output, std::int32_t sample,
                              std::uint32_t attempt) override;
  std::int32_t propose(const reference::IntegerRow& row, std::uint64_t word) override;
  bool accepts(const reference::IntegerRow& row, std::int32_t token,
               std::uint32_t attempt) override;
  std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word) override;
  std::uint64_t word_of_mark(std::uint64_t word) override;
  std::int32_t report_status(RowStatus status) override;
  float report_probability(const reference::IntegerRow& row, std::int32_t token) override;
  reference::RealLogprobs report_values(const Row& row, const reference::IntegerRow& result,
                                        LogprobsMode mode) override;
  std::uint64_t chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                           std::uint32_t index) override;
  reference::ChainOutcome accept_chain(std::span<const float> draft_probs,
                                       std::span<const std::int32_t> draft_tokens,
                                       std::span<const float> target_probs, std::size_t vocab,
                                       std::span<const std::uint64_t> accept_words,
                                       std::span<const std::uint64_t> recover_words,
                                       std::uint64_t bonus_word) override;
  reference::SpeculationOutcome accept_drafts(harness::DraftedTokens& request) override;
  void finish(const fairdraw_batch& batch) override;

 private:
  // An id that is no token of the vocabulary. The token has no weight that could be reported, so it
  // is written at the end.
  struct Stray {
    std::int64_t at;
    std::int32_t token;
  };

  // Selects the row from whose prefix sums tokens are drawn.
  void look_at(const reference::IntegerRow& row);
  // Returns the token for a random word, or 0 if the token is outside the vocabulary.
  std::int32_t pick(const DrawWeights& sums, std::uint64_t word);

  Claim claim_;
  Mutation mutation_;
  std::uint64_t start_ = 0, words_drawn_ = 0;  // start of the generator, and the number of words
                                               // that were drawn from it
  Storage storage_;
  Place place_;
  std::int64_t output_ = 0, at_ = 0;
  const reference::IntegerRow* drawn_row_ = nullptr;
  DrawWeights drawn_, proposed_;
  std::vector<Stray> strays_;
};

using Mutation = MutatedModel::Mutation;

/// A candidate token of a row, with its id, logit (or probability) and weight.
struct Candidate {
  std::int32_t id;
  float value;
  RowWeight weight;
};

/// Returns the survivors of a result by descending value, and equal values by ascending id.
std::vector<Candidate> ranked(const MutatedModel::Result& result, const MutatedModel::Row& row);

/// Makes the candidates `kept` the only survivors. If the list is empty, token 0 is the only
/// survivor, as in samplers whose softmax is NaN.
void keep_only(MutatedModel::Result& result, const std::vector<Candidate>& kept);

/// Returns the result that the row has under other parameters.
MutatedModel::Result result_of(MutatedModel::Row row, const reference::RowParameters& parameters);

}  // namespace fairdraw::suites
