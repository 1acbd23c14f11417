// Parallel sampling draws several outputs of one prompt: it gives a seed for each output,
// cumulative log-probabilities, and the best n outputs.
//
// n outputs of one prompt (OpenAI's n, vLLM's n, TensorRT-LLM's best_of) are n requests that
// share the prompt. Each output has a seed of its own, which is a function of the prompt's seed and
// the output's number alone. So an output does not depend on n, or on the places of the other
// outputs in the batch.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length; then it writes nothing. A fault of one output or of one prompt fails it alone, with a
// status.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

/// Rule by which a child's seed follows from its parent's.
enum class ChildSeedRule : std::uint32_t {
  /// Child 0 has the parent's seed, so that n = 1 gives the same output as the first of n. Child i
  /// >= 1 has Threefry2x32-20 (Salmon et al. 2011) of {i low, i high} under the key {seed low, seed
  /// high}. If this value is the parent's seed, the child has Threefry of {0, 0} instead. Threefry
  /// is a permutation under each key, so all 2^64 children of one parent have distinct seeds.
  /// Children of different parents have equal seeds as rarely as random numbers are equal. Threefry
  /// differs from the function of the draws, Philox, so that no child's seed is a word that some
  /// request draws with.
  threefry = 0,
  /// A child has seed + i modulo 2^64, as in vLLM (vllm/v1/engine/parallel_sampling.py). Child 1 of
  /// seed s has the seed of child 0 of seed s + 1, so that prompts with consecutive seeds share
  /// outputs. For drop-ins.
  seed_plus_index = 1,
};

/// Returns the seed of output number `child` of a prompt with this seed.
/// Definition: Salmon et al. 2011 for Threefry2x32-20, vLLM for seed_plus_index; see ChildSeedRule.
std::uint64_t child_seed(std::uint64_t seed, std::uint64_t child,
                         ChildSeedRule rule = ChildSeedRule::threefry) noexcept;

/// Writes the seeds of the first n outputs of each prompt: `children` is [prompts, n], n >= 1.
/// `seeds`: [prompts].
/// Definition: Salmon et al. 2011 or vLLM, as for child_seed().
Error child_seeds(View<const std::uint64_t> seeds, std::int32_t n, View<std::uint64_t> children,
                  ChildSeedRule rule = ChildSeedRule::threefry);

/// Log-probabilities of one step, which are added to those of the steps before.
struct LogprobStep {
  View<const float> logprobs;        ///< [outputs, tokens_per_step]; log-probabilities of the
                                     ///< sampled tokens
  std::int64_t tokens_per_step = 1;  ///< number of places for tokens of an output, >= 1
  View<const std::int32_t> kept;     ///< [outputs], optional: number of tokens that count
                                     ///< (StopResult::kept); without it, all tokens count
};

/// Adds to cumulative[i] the log-probabilities that count, one after another from the left. Each is
/// widened to double, and every addition is rounded to double in the order of the steps, so that
/// steps of one token and of several give the same bits. A sum of -inf stays -inf. If a
/// log-probability is NaN or +inf, the output fails (nan_input, infinite_input in `statuses`) and
/// its sum does not change. If `kept` is outside [0, tokens_per_step], the output fails with
/// invalid_history.
/// Shapes: `cumulative` and `statuses` (optional) are [outputs].
/// Definition: vLLM's cumulative_logprob, with the order of the additions fixed.
Error add_logprobs(const LogprobStep& step, View<double> cumulative, View<RowStatus> statuses = {});

/// The candidates of each prompt. Candidate j of prompt p is at place p * candidates + j.
struct BestOfRequest {
  std::int64_t prompts = 0;               ///< number of prompts, >= 0
  std::int32_t candidates = 1;            ///< best_of, >= 1
  std::int32_t n = 1;                     ///< number of outputs that are wanted, 1 to `candidates`
  View<const double> cumulative;          ///< [prompts, candidates]; cumulative log-probabilities
  View<const std::int32_t> lengths;       ///< [prompts, candidates]; numbers of tokens, >= 1;
                                          ///< needed if length_penalty is not 0
  PerRequest<double> length_penalty = 0;  ///< scalar or [prompts]; any finite number
  View<const RowStatus> statuses;         ///< [prompts, candidates], optional: a candidate whose
                                          ///< status is not ok cannot be chosen
};

/// Results. If a prompt has fewer than n candidates that can be chosen, the rest of its places have
/// number -1 and score -inf.
struct BestOfResult {
  View<std::int32_t> chosen;  ///< [prompts, n]; numbers of the chosen candidates, best first
  View<double> scores;        ///< [prompts, n], optional
  View<RowStatus> statuses;   ///< [prompts], optional: nan_input (a candidate's log-probability is
                              ///< NaN), infinite_input (a log-probability is +inf), invalid_history
                              ///< (a length below 1), invalid_penalty; a prompt with such a status
                              ///< has no chosen candidate
};

/// Chooses the n best candidates of each prompt by their scores; of equal scores, the lower number
/// comes first. A score is cumulative / length^length_penalty in double. A penalty of 0 takes the
/// sum alone, as best_of did in vLLM and does in TensorRT-LLM, and a penalty of 1 takes the mean.
/// Hugging Face and vLLM's beam search divide by length^length_penalty.
/// Definition: vLLM, TensorRT-LLM and Hugging Face, for the penalties named above.
Error best_of(const BestOfRequest& request, const BestOfResult& result);

}  // namespace fairdraw
