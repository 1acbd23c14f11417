// Mirostat chooses a filter's parameter before each token of a request, so that the surprise of the
// tokens, -log2 of their probabilities, stays near a target (Basu et al. 2021, arXiv 2007.14966).
//
// The filter is one of a filter chain, and the state is one number of the request, mu. So a request
// with Mirostat is drawn by `sample` on every backend, and the caller keeps the state:
//
//   Mirostat state;                                              // tau 5, eta 0.1, mu 10
//   processing.filter_chain = filter_chain_of({FilterStep::temperature,
//   FilterStep::epsilon_cutoff}); processing.chain_temperature = request.temperature = 0.8F;
//   processing.epsilon_cutoff = mirostat_cutoff(state);          // before each token
//   sample(request, result);                                     // with logprob_filtered
//   observe_surprise(state, logprob_filtered);                   // after the token
//
// Version 1 has FilterStep::top_k in place of epsilon_cutoff, and chain_top_k from
// mirostat_top_k().
//
// Definition: llama.cpp (src/llama-sampler.cpp, llama_sampler_mirostat_apply and
// llama_sampler_mirostat_v2_apply), whose chain has the temperature before Mirostat. There the
// arithmetic is in float32; here it is in double, with exp2 and log of the C library. A top_k of a
// chain keeps ties of the last token, where llama.cpp keeps exactly k.
//
// Errors: A call returns invalid_argument if a value is out of its range; then it writes nothing.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

/// State of one request. All numbers are in bits.
struct Mirostat {
  double tau = 5.0;  ///< surprise that is aimed at, finite
  double eta = 0.1;  ///< rate at which mu follows, finite
  double mu = 10.0;  ///< largest surprise that the next token may have, finite; begins with 2 tau
};

/// Returns the epsilon_cutoff of the next token (version 2): 2^-mu as float32, but at most 1.
/// Definition: llama.cpp's llama_sampler_mirostat_v2_apply, which keeps tokens whose surprise is at
/// most mu.
float mirostat_cutoff(const Mirostat& state) noexcept;

/// Writes the chain_top_k of the next token (version 1), from 1 to `vocab`, to `top_k`. `largest`
/// has the largest log-probabilities of the row at the request's temperature, before the filter, in
/// decreasing order: 2 or more, finite or -inf; llama.cpp takes 100. Tokens at -inf do not count.
/// Shapes: `largest` is [m].
/// Definition: llama.cpp's llama_sampler_mirostat_apply, estimate of the exponent of Zipf's law.
Error mirostat_top_k(const Mirostat& state, View<const float> largest, std::int64_t vocab,
                     std::int32_t& top_k);

/// Moves mu after a token: mu - eta (surprise - tau), where the surprise is that of the token among
/// the survivors, `logprob_filtered` (SampleResult), in natural logarithms, finite and at most 0.
/// Definition: llama.cpp's llama_sampler_mirostat_v2_apply; version 1 moves mu in the same way.
Error observe_surprise(Mirostat& state, float logprob_filtered);

}  // namespace fairdraw
