// Tests logits processing over whole batches and several calls: histories that exceed the width of
// counters, padding, and requests that come and go. For processing.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns the same rows with all steps of processing applied, in float32.
Request processed_beforehand(const Request& request);

/// Runs a request. A sampler without statuses may refuse the whole call because of a row that has
/// no token. Then the other rows of the call are sampled one by one, for tokens and masks; rows
/// without a token, and padding, get -1.
Response run_processed(const CheckInput& input, const Request& request,
                       const WantedResults& wanted);

/// Returns the error in a row of a response, or an empty string if there is none. The argument
/// `plain` has the same rows with all processing already applied, and is only needed for samplers
/// that claim only the distribution.
std::string wrong_in(const CheckInput& input, const Request& request, const Request& plain,
                     const Response& response, std::int64_t row);

/// Adds the step of processing that is wrong in a row to the outcome's suspects. If rows are wrong
/// without any step, too, a mistake in the filters is added, if one alone explains the masks.
void note_wrong_step(const CheckInput& input, const Request& request, std::int64_t row,
                     CheckOutcome& outcome);

/// Judges tokens that occur as often as 8 and 16 bits can count, once less, and once more. If a
/// count saturates or wraps around, another token has the largest logit.
void expect_large_counts(const CheckInput& input, CheckOutcome& outcome);

/// Judges rows with processing among padding rows whose lists are empty or bad. Padding rows must
/// have no token. The rows next to padding, and the next call, must have the same tokens as in a
/// batch without padding.
void expect_padding_passed_over(const CheckInput& input, CheckOutcome& outcome);

/// Returns the processing with which request `number` enters a running batch: without output, and
/// in every fourth request with rules of histories, if the sampler has them.
reference::RowProcessing processing_of_request(const CheckInput& input, std::uint64_t number);

/// Runs a batch of some slots over some steps, as an engine does. Requests with processing of their
/// own are added, continue with the tokens that they got, are evicted, are restored in any slot
/// with the same history, seed and offset, and end; the next request takes their slot.
void expect_running_batch(const CheckInput& input, CheckOutcome& outcome);

}  // namespace fairdraw::harness
