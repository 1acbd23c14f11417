// Requests, logits and bitmasks for the state machine; each is derived from one number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/inputs/dice.h"
#include "tests/serving/batch_model.h"

namespace fairdraw::suites::batches {

/// Returns a request that is valid for a state with these options; every member is used in some
/// requests. Only a state with lists gets rules of histories.
BatchRequest random_request(harness::Dice& dice, const BatchStateOptions& options);

/// Returns a request in which only the seed is set. Without a seed, two states would draw with
/// different fresh seeds.
BatchRequest seeded_request();

/// Makes one member of a valid request invalid, and returns the name of the member in error
/// messages.
std::string mutate(BatchRequest& request, harness::Dice& dice, const BatchStateOptions& options);

/// Returns logits and rows for a step over a batch with `slots` slots in use. The logits have ties
/// and -inf, and some rows a NaN or +inf; some steps have offsets that are rejected.
StepInput random_step(harness::Dice& dice, const BatchStateOptions& options, std::int32_t slots);

/// Returns bitmasks [rows, words]: some rows allow all tokens, some one token, some none.
std::vector<std::uint32_t> random_bitmask(harness::Dice& dice, const BatchStateOptions& options,
                                          std::int32_t rows);

/// Returns ids of the vocabulary; if `may_be_bad` is true, occasionally also an id outside of it.
std::vector<std::int32_t> random_tokens(harness::Dice& dice, const BatchStateOptions& options,
                                        std::int64_t count, bool may_be_bad = false);

}  // namespace fairdraw::suites::batches
