// Requests, logits and bitmasks for the state machine, from one number each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/inputs/dice.h"
#include "tests/serving/batch_model.h"

namespace fairdraw::suites::batches {

/// A request that a state of these options takes: every member is used in some of them.
BatchRequest random_request(harness::Dice& dice, const BatchStateOptions& options);

/// One with a seed and nothing else: of two states that add one without, each draws a fresh seed.
BatchRequest seeded_request();

/// Makes one member of a good request bad, and returns its name, as errors call it.
std::string mutate(BatchRequest& request, harness::Dice& dice, const BatchStateOptions& options);

/// Logits and rows for a step over a batch with `slots` slots in use. Ties, -inf, sometimes NaN or
/// +inf in a row; sometimes offsets that are refused.
StepInput random_step(harness::Dice& dice, const BatchStateOptions& options, std::int32_t slots);

/// [rows, words] bits: some rows allow all, some one token, some none.
std::vector<std::uint32_t> random_bitmask(harness::Dice& dice, const BatchStateOptions& options,
                                          std::int32_t rows);

/// Ids of the vocabulary; now and then, with `may_be_bad`, one outside of it.
std::vector<std::int32_t> random_tokens(harness::Dice& dice, const BatchStateOptions& options,
                                        std::int64_t count, bool may_be_bad = false);

}  // namespace fairdraw::suites::batches
