// A sampler whose acceptance rule can be chosen. The sampler is the integer model except for
// drafted tokens, which it verifies in float64, because engines use floating point. The sampler is
// the base of correct samplers that have other rules than the token-wise one, and of mutants with a
// wrong rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harness/adapters/serving_model.h"

namespace fairdraw::suites {

using Weights = std::vector<double>;  ///< [vocab]; weights of one row, whose sum is 1 unless a
                                      ///< comment says otherwise

/// The drafted tokens about which an acceptance rule decides. A chain of n drafted tokens is a tree
/// in which node i + 1 follows node i.
struct Drafts {
  bool tree = false;
  std::vector<Weights> p, q;          ///< rows after the root and after each drafted token; q is
                                      ///< empty if it is unknown
  std::vector<std::size_t> drafted;   ///< [n]
  std::vector<std::int64_t> parents;  ///< [n], -1: the root
  std::size_t max_depth = 0;
  std::vector<double> accept, recover;  ///< uniform numbers in [0, 1) by depth, n + 1 of each; in a
                                        ///< chain the last `recover` is for the bonus token
  std::vector<std::vector<double>> accept_next;  ///< uniform numbers by depth, for the second child
                                                 ///< and later ones
  DType dtype = DType::float32;                  ///< dtype of a chain's probabilities

  std::vector<std::size_t> children(std::int64_t node) const;
  const Weights& target_after(std::int64_t node) const {
    return p[static_cast<std::size_t>(node + 1)];
  }
};

/// The decision of an acceptance rule: the accepted nodes in their order, and the token after them.
/// `passed` is the number of positions that pass their own test, if the rule has such tests.
struct Decision {
  std::vector<std::size_t> nodes;
  std::size_t token = 0;
  std::optional<std::size_t> passed = {};
};
using Rule = std::function<Decision(const Drafts&)>;

/// Returns the token at the fraction `u` of the sum of the weights, whatever that sum is.
std::size_t draw_from(const Weights& weights, double u);

/// Returns max(scale * p - q, 0), which is not normalised.
Weights difference(const Weights& p, const Weights& q, double scale = 1);

class RuleSampler final : public harness::ServingModel {
 public:
  /// The acceptance rules of a sampler. If a rule is empty, the model's own rule applies. The model
  /// also decides failing and greedy requests; it decides chains of unknown distribution unless
  /// `unknown_too` is true.
  struct Rules {
    Rule chain, tree;
    bool unknown_too = false;
    bool with_replacement_only = false;  ///< true if the model decides all trees except those drawn
                                         ///< with replacement
  };
  RuleSampler(harness::AcceptanceRule declared, Rules rules);
  std::string run_chain(const fairdraw_chain& chain) override;

 protected:
  reference::ChainOutcome accept_chain(std::span<const float> draft_probs,
                                       std::span<const std::int32_t> draft_tokens,
                                       std::span<const float> target_probs, std::size_t vocab,
                                       std::span<const std::uint64_t> accept_words,
                                       std::span<const std::uint64_t> recover_words,
                                       std::uint64_t bonus_word) override;
  reference::SpeculationOutcome accept_drafts(harness::DraftedTokens& request) override;

 private:
  Rules rules_;
  DType dtype_ = DType::float32;
};

}  // namespace fairdraw::suites
