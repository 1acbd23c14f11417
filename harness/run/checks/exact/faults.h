// Makes rows with one invalid value at a time, for the two forms of the check `status`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// One mutation of row `row` of a request, and the status that it must have under semantics
/// fairdraw.
struct Fault {
  std::string name;
  RowStatus status;
  std::function<void(Request&, std::int64_t row)> mutation;
};

std::vector<Fault> all_faults(RowInput input, std::int64_t vocab);

/// Returns the error in the answer to a request that has the fault in its row, or an empty string
/// if there is none. A message about another row begins with "batch-mate".
using WrongWith = std::function<std::string(const Fault&, std::int64_t row, const Request&)>;

/// Puts each fault that the sampler supports into a row of `base`, one after the other. The outcome
/// fails with the first wrong answer.
void judge_faults(const CheckInput& input, const Request& base, const WrongWith& wrong_with,
                  CheckOutcome& outcome);

/// Runs the check `status` for profiles of engines, for samplers without statuses, and for draws
/// that cannot be repeated. A row that must fail has no token or, if the sampler reports no
/// statuses, the call is refused. Every other row of the batch has a token of its support and, with
/// per-request seeds, the same token as before. If the profile leaves a row open, only the other
/// rows of the batch are judged.
CheckOutcome check_status_of_tokens(const CheckInput& input);

}  // namespace fairdraw::harness
