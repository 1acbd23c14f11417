// Explains wrong log-probabilities as the right ones of another definition: another point of the
// pipeline, another logarithm, another rank. The check checks/exact/logprobs.cpp uses this code.
#pragma once

#include <vector>

#include "harness/run/checks/exact/logprob_rows.h"

namespace fairdraw::harness {

/// A call whose report differs from the expected one.
struct WrongLogprobs {
  const CheckInput& input;
  const Request& request;
  const AskedLogprobs& asked;
  const Response& response;
  const std::vector<ExpectedLogprobs>& expected;  ///< by row
  const reference::WeightBound& bound;
};

/// Tries mistakes one by one (values of another mode, a step left out, a logarithm to another base,
/// ranks from 0, ...) with the oracle's answers, and names the first that explains the whole call.
/// If no mistake explains the call, the function names which of values, ranks and largest tokens
/// are wrong. Calls no sampler.
void note_logprob_mistakes(const WrongLogprobs& call, CheckOutcome& outcome);

}  // namespace fairdraw::harness
