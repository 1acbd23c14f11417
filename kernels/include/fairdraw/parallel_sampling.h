// Several outputs of one prompt: a seed for each, cumulative log-probabilities, the best n.
//
// n outputs of one prompt (OpenAI's n, vLLM's n, TensorRT-LLM's best_of) are n requests that
// share the prompt. Each has a seed of its own, a function of the prompt's seed and its number
// alone: an output is the same whatever n is and wherever its siblings are in the batch.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length; then it writes nothing. A fault of one output or of one prompt fails it alone, with a
// status.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

/// How a child's seed follows from its parent's.
enum class ChildSeedRule : std::uint32_t {
  /// Child 0 has the parent's seed, so that n = 1 and the first of n are the same output. Child
  /// i >= 1 has Threefry2x32-20 (Salmon et al. 2011) of {i low, i high} under the key {seed low,
  /// seed high}; where that is the parent's seed, Threefry of {0, 0} takes its place. Threefry is
  /// a permutation under each key, so children of one parent are distinct, all 2^64 of them; those
  /// of different parents coincide as random numbers do. It is another function than the draws'
  /// Philox: no child's seed is a word that somebody draws with.
  threefry = 0,
  /// seed + i modulo 2^64, vLLM's (vllm/v1/engine/parallel_sampling.py). Child 1 of seed s is
  /// child 0 of seed s + 1: prompts with consecutive seeds share outputs. For drop-ins.
  seed_plus_index = 1,
};

/// The seed of output number `child` of a prompt with this seed.
/// Definition: Salmon et al. 2011 for Threefry2x32-20, vLLM for seed_plus_index; see ChildSeedRule.
std::uint64_t child_seed(std::uint64_t seed, std::uint64_t child,
                         ChildSeedRule rule = ChildSeedRule::threefry) noexcept;

/// Seeds of the first n outputs of each prompt: `children` is [prompts, n], n >= 1.
/// `seeds`: [prompts].
/// Definition: Salmon et al. 2011 or vLLM, as for child_seed().
Error child_seeds(View<const std::uint64_t> seeds, std::int32_t n, View<std::uint64_t> children,
                  ChildSeedRule rule = ChildSeedRule::threefry);

/// Log-probabilities of one step, to be added to those of the steps before.
struct LogprobStep {
  View<const float> logprobs;        ///< [outputs, tokens_per_step], of the sampled tokens
  std::int64_t tokens_per_step = 1;  ///< places of each output, >= 1
  View<const std::int32_t> kept;     ///< [outputs], optional: how many of them count
                                     ///< (StopResult::kept); without it all do
};

/// cumulative[i] += the log-probabilities that count, one after another from the left, each
/// widened to double and every addition rounded to double: the order of the steps and no other,
/// so that one token per step and several give the same bits. -inf stays -inf. A NaN or +inf fails
/// the output (nan_input, infinite_input in `statuses`) and leaves its sum as it was; `kept`
/// outside [0, tokens_per_step] does so with invalid_history.
/// `cumulative` and `statuses`: [outputs]; `statuses` is optional.
/// Definition: vLLM's cumulative_logprob, with the order of the additions fixed.
Error add_logprobs(const LogprobStep& step, View<double> cumulative, View<RowStatus> statuses = {});

/// Candidates of prompts, `candidates` of each: candidate j of prompt p is at p * candidates + j.
struct BestOfRequest {
  std::int64_t prompts = 0;               ///< number of prompts, >= 0
  std::int32_t candidates = 1;            ///< best_of, >= 1
  std::int32_t n = 1;                     ///< how many are wanted, 1 to `candidates`
  View<const double> cumulative;          ///< [prompts, candidates], cumulative log-probabilities
  View<const std::int32_t> lengths;       ///< [prompts, candidates], tokens; needed where
                                          ///< length_penalty is not 0; >= 1
  PerRequest<double> length_penalty = 0;  ///< scalar or [prompts]; finite
  View<const RowStatus> statuses;         ///< [prompts, candidates], optional: those not ok are out
};

/// Results: -1 and -inf where a prompt has fewer than n candidates that are not out.
struct BestOfResult {
  View<std::int32_t> chosen;  ///< [prompts, n], numbers of candidates, best first
  View<double> scores;        ///< [prompts, n], optional
  View<RowStatus> statuses;   ///< [prompts], optional: nan_input (a candidate's log-probability is
                              ///< NaN), infinite_input (+inf), invalid_history (a length below 1),
                              ///< invalid_penalty; then nothing is chosen
};

/// The n best candidates of each prompt by score, of equal scores the lower number first. A score
/// is cumulative / length^length_penalty in double: a penalty of 0 takes the sum alone, as
/// best_of did in vLLM and does in TensorRT-LLM; 1 is the mean; Hugging Face and vLLM's beam search
/// divide by length^length_penalty.
/// Definition: vLLM, TensorRT-LLM and Hugging Face, for the penalties named above.
Error best_of(const BestOfRequest& request, const BestOfResult& result);

}  // namespace fairdraw
