// One call with drafted chains, with all of its arrays: the request and its response.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/types.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// A form of fairdraw_chain that owns its arrays. The probabilities are values that `dtype`
/// represents exactly. The three arrays of random words are either all empty, or have the shapes
/// [batch, n], [batch, n] and [batch].
struct ChainRequest {
  DType dtype = DType::float32;
  std::int64_t batch = 0, num_draft_tokens = 0, vocab = 0;
  std::vector<float> draft_probs;          ///< [batch * n, vocab]
  std::vector<std::int32_t> draft_tokens;  ///< [batch, n]
  std::vector<float> target_probs;         ///< [batch * (n + 1), vocab]
  bool seed_is_scalar = false;
  std::vector<std::uint64_t> seed, offset;  ///< [batch], or [1]
  std::vector<std::uint64_t> accept_words, recover_words, bonus_words;
  bool counts = true;  ///< true if counts and statuses are also requested
};

struct ChainResponse {
  std::string refused, damage;  ///< as in Response
  std::vector<std::int32_t> tokens, accepted, emitted, statuses;

  bool ran() const { return refused.empty() && damage.empty(); }
  std::string trouble() const { return refused.empty() ? damage : "call refused: " + refused; }
};

/// Runs the request. The field `statuses` is filled only if the sampler reports statuses.
ChainResponse run_chain_request(Sampler& sampler, const ChainRequest& request);

}  // namespace fairdraw::harness
