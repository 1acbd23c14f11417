// What wrong log-probabilities are the right ones of: another point of the pipeline, another
// logarithm, another rank. For checks/exact/logprobs.cpp.
#pragma once

#include <vector>

#include "harness/run/checks/exact/logprob_rows.h"

namespace fairdraw::harness {

/// A call that does not report what is expected.
struct WrongLogprobs {
  const CheckInput& input;
  const Request& request;
  const AskedLogprobs& asked;
  const Response& response;
  const std::vector<ExpectedLogprobs>& expected;  ///< by row
  const reference::WeightBound& bound;
};

/// Tries mistakes one by one (values of another mode, a step left out, a logarithm to another base,
/// ranks from 0, ...), by the oracle's answers, and names the first that explains the whole call;
/// where none does, which of values, ranks and largest tokens are wrong. Calls no sampler.
void note_logprob_mistakes(const WrongLogprobs& call, CheckOutcome& outcome);

}  // namespace fairdraw::harness
