// Requests, logits and bitmasks for the state machine, each derived from one number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/inputs/dice.h"
#include "tests/serving/batch_model.h"

namespace fairdraw::suites::batches {

/// Returns a request that is valid for a state of these options; every member is used in some
/// requests.
BatchRequest random_request(harness::Dice& dice, const BatchStateOptions& options);

/// Returns a request with only a seed. Without one, two states would draw different fresh seeds.
BatchRequest seeded_request();

/// Invalidates one member of a valid request, and returns the member's name in errors.
std::string mutate(BatchRequest& request, harness::Dice& dice, const BatchStateOptions& options);

/// Returns logits and rows for a step over a batch with `slots` slots in use: ties, -inf, sometimes
/// NaN or +inf in a row; sometimes offsets that are rejected.
StepInput random_step(harness::Dice& dice, const BatchStateOptions& options, std::int32_t slots);

/// Returns [rows, words] bits: some rows allow all tokens, some one, some none.
std::vector<std::uint32_t> random_bitmask(harness::Dice& dice, const BatchStateOptions& options,
                                          std::int32_t rows);

/// Returns ids of the vocabulary; with `may_be_bad`, occasionally one outside of it.
std::vector<std::int32_t> random_tokens(harness::Dice& dice, const BatchStateOptions& options,
                                        std::int64_t count, bool may_be_bad = false);

}  // namespace fairdraw::suites::batches
