// Adaptive-p chooses the target of FilterStep::adaptive_p before each token of a request, so that
// the probabilities of the tokens stay near a target of the request on average.
//
// The step is the last one of a filter chain, and the state is one number of the request, the mean.
// So a request with adaptive-p is drawn by `sample` on every backend, and the caller keeps the
// state. The probability that counts is the one before the step, and log_probabilities() has it,
// for the same request without the step:
//
//   AdaptiveP state{0.3, 0.9, 0.3};                              // target, decay, mean
//   processing.filter_chain = filter_chain_of({FilterStep::temperature, FilterStep::adaptive_p});
//   processing.chain_temperature = 0.8F;
//   request.temperature = 1.0F;                                  // of the step's logits
//   request.processing.adaptive_target = adapted_target(state);  // before each token
//   sample(request, result);
//   request.temperature = 0.8F;                                  // as the chain's
//   request.processing.adaptive_target = -1.0F;                  // the step is off
//   report.mode = LogprobsMode::processed_logprobs;              // report.values has the logprob
//   log_probabilities(request, tokens, report);
//   observe_probability(state, std::exp(logprob));               // after the token
//
// Definition: llama.cpp (pull request 17927; src/llama-sampler.cpp, llama_sampler_adaptive_p_apply
// and llama_sampler_init_adaptive_p). There a sum of p weighted by powers of the decay is divided
// by the sum of the weights, which begins with its limit 1 / (1 - decay) and stays there, so that
// the quotient is the mean here. There the arithmetic is in float32; here it is in double.
//
// Errors: A call returns invalid_argument if a value is out of its range; then it writes nothing.
#pragma once

#include "fairdraw/types.h"

namespace fairdraw {

/// State of one request.
struct AdaptiveP {
  double target = -1.0;  ///< probability that is aimed at, at most 1; below 0: off
  double decay = 0.9;    ///< weight of the earlier tokens, in [0, 0.99]
  double mean = -1.0;    ///< mean probability of the tokens, in [0, 1]; begins with the target
};

/// Returns the adaptive_target of the next token: 2 target - mean, within [0, 1], as float32; -1 if
/// adaptive-p is off.
/// Definition: llama.cpp's llama_sampler_adaptive_p_apply.
float adapted_target(const AdaptiveP& state) noexcept;

/// Moves the mean after a token: decay mean + (1 - decay) probability, where the probability is
/// that of the token before the step, in [0, 1]. Moves nothing if adaptive-p is off. Definition:
/// llama.cpp's llama_sampler_adaptive_p_accept.
Error observe_probability(AdaptiveP& state, float probability);

}  // namespace fairdraw
