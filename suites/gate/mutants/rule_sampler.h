// A sampler whose rule of acceptance can be chosen: the integer model for everything but drafts,
// and float64 for these, as engines verify them in floating point. The base of right samplers that
// are not token-wise, and of mutants whose bug is in a rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harness/adapters/serving_model.h"

namespace fairdraw::suites {

using Weights = std::vector<double>;  ///< [vocab], of one row; they sum to 1 unless said otherwise

/// Drafts as a rule sees them. A chain of n drafts is a tree: node i + 1 follows node i.
struct Drafts {
  bool tree = false;
  std::vector<Weights> p, q;          ///< rows after the root and each draft; q: empty if unknown
  std::vector<std::size_t> drafted;   ///< [n]
  std::vector<std::int64_t> parents;  ///< [n], -1: the root
  std::size_t max_depth = 0;
  std::vector<double> accept, recover;  ///< uniform in [0, 1), by depth, n + 1 of each; in a chain
                                        ///< the last of recover is the bonus token's
  std::vector<std::vector<double>> accept_next;  ///< by depth, of the second child on
  DType dtype = DType::float32;                  ///< of a chain's probabilities

  std::vector<std::size_t> children(std::int64_t node) const;
  const Weights& target_after(std::int64_t node) const {
    return p[static_cast<std::size_t>(node + 1)];
  }
};

/// What a rule makes of them: the nodes that it accepts, one after the other, and the token that
/// comes then. `passed`: positions that pass a test of their own, where the rule has such tests.
struct Decision {
  std::vector<std::size_t> nodes;
  std::size_t token = 0;
  std::optional<std::size_t> passed = {};
};
using Rule = std::function<Decision(const Drafts&)>;

/// The token at `u` of the way through the weights, whatever they sum to.
std::size_t draw_from(const Weights& weights, double u);

/// max(scale * p - q, 0), not scaled to any sum.
Weights difference(const Weights& p, const Weights& q, double scale = 1);

class RuleSampler final : public harness::ServingModel {
 public:
  /// Where `rule` is empty the model's own decides. Requests that fail, and greedy ones, are left
  /// to the model too, and so are chains of unknown distribution unless `unknown_too`.
  struct Rules {
    Rule chain, tree;
    bool unknown_too = false;
    bool with_replacement_only = false;  ///< the others of the trees are left to the model
  };
  RuleSampler(harness::AcceptanceRule declared, Rules rules);
  std::string run_chain(const fairdraw_chain& chain) override;

 protected:
  reference::ChainOutcome verify(std::span<const float> draft_probs,
                                 std::span<const std::int32_t> draft_tokens,
                                 std::span<const float> target_probs, std::size_t vocab,
                                 std::span<const std::uint64_t> accept_words,
                                 std::span<const std::uint64_t> recover_words,
                                 std::uint64_t bonus_word) override;
  reference::SpeculationOutcome verify_request(harness::DraftedTokens& request) override;

 private:
  Rules rules_;
  DType dtype_ = DType::float32;
};

}  // namespace fairdraw::suites
