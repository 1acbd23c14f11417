// A sampler as engines have them: float32, sort-based, with its own idea of random numbers. Judged
// by the real-number oracle under a profile of its own. The base of mutants whose bug is one of
// numbers: narrow sums, coarse uniforms, noise that is cut off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "reference/integer_model.h"
#include "suites/gate/mutants/mutated_model.h"

namespace fairdraw::suites {

class FloatSampler final : public harness::Sampler {
 public:
  /// vllm_torch: min_p, top_k, top_p. hf: min_p last, temperature 0 and top_k 0 are errors.
  /// rosellm: no min_p, and the nucleus without the token that crosses p. Bad rows and parameters
  /// are what the profile of the same name says: an error, something else, or anything.
  enum class Order { vllm_torch, hf, rosellm };
  /// inverse_cdf: one uniform against prefix sums. race: Gumbel-max, the largest log-probability
  /// plus noise; or what is the same, the largest probability over an exponential.
  enum class Draw { inverse_cdf, race };

  using Logits = std::vector<float>;   ///< [vocab], -inf where banned
  using Scores = std::vector<double>;  ///< [vocab] logit / T; -inf: filtered out. float64, so that
                                       ///< no quotient overflows; probabilities are float32

  /// The steps that may be wrong. Empty: right.
  struct Mutation {
    /// Changes what the call asks for.
    std::function<void(fairdraw_batch&, Storage&)> call;
    /// Changes the scores before the filters.
    std::function<void(Scores&, const Logits& logits, const reference::RowParameters&)> scores;
    /// Instead of min_p: sets the scores to -inf that go.
    std::function<void(Scores&, const Logits& logits, const reference::RowParameters&)> min_p;
    /// Instead of top_p: the same.
    std::function<void(Scores&, float top_p)> top_p;
    /// Changes the scores after the filters.
    std::function<void(Scores&, const Logits& logits, const reference::RowParameters&)> filtered;
    /// Changes the probabilities [vocab] that are drawn from, not what is reported.
    std::function<void(std::vector<float>&)> probabilities;
    /// The noise that belongs to a uniform in (0, 1) and does not fall with it. Right is Gumbel's
    /// distribution: minus the logarithm of an exponential.
    std::function<double(double uniform)> noise;
    /// Whether a token of probability 0 wins, from the largest uniform of all of these.
    std::function<bool(double largest_uniform)> zero_wins;
    /// Of inverse_cdf, from the probabilities: the token of `word`. Called with each row once.
    std::function<std::function<std::int32_t(std::uint64_t word)>(const std::vector<float>&)> pick;
  };

  FloatSampler(Order order, Draw draw, Mutation mutation);
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override;

 private:
  struct Row;
  Row prepare(const fairdraw_batch& batch, std::int64_t row) const;
  void score(Scores& scores, const Logits& logits,
             const reference::RowParameters& parameters) const;
  void filter(Scores& scores, const Logits& logits,
              const reference::RowParameters& parameters) const;
  std::int32_t draw(const Row& row, std::uint64_t word) const;
  std::int32_t race(const Row& row, std::uint64_t word) const;

  Order order_;
  Draw draw_;
  Mutation mutation_;
  harness::SamplerDescription description_;
};

using FloatMutation = FloatSampler::Mutation;

/// softmax to float32; the sum is made in float64, as PyTorch does on a CPU.
std::vector<float> float_softmax(const FloatSampler::Scores& scores);

/// The right top_p of vllm_torch and hf: sets the scores to -inf that go.
void float_top_p(FloatSampler::Scores& scores, float top_p);

/// `value` rounded to bfloat16 and widened again.
float to_bf16(float value);

}  // namespace fairdraw::suites
