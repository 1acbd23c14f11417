// A sampler like those of engines: it computes in float32, sorts the row, and uses random numbers
// in its own way. The real-number oracle judges the sampler under its profile. The sampler is the
// base of mutants with numeric errors: narrow sums, coarse uniform numbers, truncated noise.
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
  /// The order of the filters. vllm_torch: min_p, top_k, top_p. hf: min_p is last, and temperature
  /// 0 and top_k 0 are errors. rosellm: there is no min_p, and the nucleus lacks the token that
  /// crosses p. Bad rows and parameters follow the profile of the same name: they give an error,
  /// another result, or anything.
  enum class Order { vllm_torch, hf, rosellm };
  /// The way to draw. inverse_cdf: one uniform number is compared with prefix sums. race:
  /// Gumbel-max, the largest log-probability plus noise, which is equivalent to the largest
  /// probability over an exponential.
  enum class Draw { inverse_cdf, race };

  using Logits = std::vector<float>;   ///< [vocab]; -inf for a banned token
  using Scores = std::vector<double>;  ///< [vocab]; logit / T, and -inf for a filtered token;
                                       ///< float64, so that no quotient overflows (probabilities
                                       ///< are float32)

  /// The steps that a mutant may replace. A step that is not set is right.
  struct Mutation {
    std::function<void(fairdraw_batch&, Storage&)> call;
    /// Changes the scores before the filters.
    std::function<void(Scores&, const Logits& logits, const reference::RowParameters&)> scores;
    /// Replaces min_p: sets the scores of removed tokens to -inf.
    std::function<void(Scores&, const Logits& logits, const reference::RowParameters&)> min_p;
    /// Replaces top_p: sets the scores of removed tokens to -inf.
    std::function<void(Scores&, float top_p)> top_p;
    /// Changes the scores after the filters.
    std::function<void(Scores&, const Logits& logits, const reference::RowParameters&)> filtered;
    /// Changes the probabilities [vocab] for drawing, but not the reported probabilities.
    std::function<void(std::vector<float>&)> probabilities;
    /// Returns the noise for a uniform number in (0, 1); the function must not decrease. The right
    /// noise has Gumbel's distribution: minus the logarithm of an exponential.
    std::function<double(double uniform)> noise;
    /// Returns whether a token of probability 0 wins, given the largest uniform number of all such
    /// tokens.
    std::function<bool(double largest_uniform)> zero_wins;
    /// Replaces inverse_cdf: from the probabilities, makes a function that returns the token for a
    /// random word. The outer function is called once per row.
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

/// Returns the softmax in float32; the sum is in float64, as in PyTorch on a CPU.
std::vector<float> float_softmax(const FloatSampler::Scores& scores);

/// Applies the right top_p of vllm_torch and hf: the scores of removed tokens become -inf.
void float_top_p(FloatSampler::Scores& scores, float top_p);

/// Returns `value` rounded to bfloat16.
float to_bf16(float value);

}  // namespace fairdraw::suites
