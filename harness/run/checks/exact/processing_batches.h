// Logits processing over whole batches and over calls: histories as long as counters are wide, rows
// that are padding, and requests that come and go. For processing.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// The same rows with the steps taken already, in float32, and nothing left to do.
Request processed_beforehand(const Request& request);

/// Runs a request. A sampler without statuses may refuse the whole call for a row that has no
/// token: then the other rows are asked one by one, for tokens and masks, and such rows, as
/// padding, get -1 here.
Response run_processed(const CheckInput& input, const Request& request,
                       const WantedResults& wanted);

/// What is wrong with a row of a response; empty: nothing. `plain`: the rows processed beforehand,
/// only for samplers that claim no more than the distribution.
std::string wrong_in(const CheckInput& input, const Request& request, const Request& plain,
                     const Response& response, std::int64_t row);

/// Tokens that occur as often as 8 and 16 bits can count, once less and once more: where a count
/// saturates or wraps, another token has the largest logit.
void expect_large_counts(const CheckInput& input, CheckOutcome& outcome);

/// Rows with processing among padding whose lists are empty, or bad: padding has no token, its
/// neighbours those that they have in a batch without it, and the call after it too.
void expect_padding_passed_over(const CheckInput& input, CheckOutcome& outcome);

/// A batch of some slots over some steps, as an engine has it: requests with processing of their
/// own are added, go on from the tokens that they were given, are evicted, restored in any slot
/// with their history, seed and offset as they were, and end; the next request takes their slot.
void expect_running_batch(const CheckInput& input, CheckOutcome& outcome);

}  // namespace fairdraw::harness
