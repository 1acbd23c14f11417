// From an engine's request to a request of a batch: the step between request_parameters.h and
// batch_state.h.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/batch_state.h"
#include "fairdraw/fresh_seed.h"
#include "fairdraw/request_parameters.h"

namespace fairdraw {

/// What a request has besides its parameters.
struct RequestContext {
  std::vector<std::int32_t> prompt;
  std::int32_t eos_id = -1;  ///< banned by min_tokens too, unless ignore_eos; -1: none
  /// For requests without a seed of their own: one a prompt, the same for all of its n outputs.
  std::uint64_t fresh_seed = fairdraw::fresh_seed();
  std::int32_t child = 0;  ///< which of the n outputs of the prompt, >= 0
};

/// The request of one output. Its seed is child_seed() of the parameters' seed, or of fresh_seed
/// where these have none; 0 is a seed like any other.
///
/// unsupported, with the field: what a state cannot do (frequency and presence penalties that count
/// the prompt, a window of penalties), and rules for ties and for the order of filters that are not
/// those of the state's options. Lengths, stops and log-probabilities are not a state's affair
/// (stop_criteria.h). Ranges are BatchState::add's to check.
Error batch_request_from(const RequestParameters& parameters, const RequestContext& context,
                         const BatchStateOptions& options, BatchRequest& request);

}  // namespace fairdraw
