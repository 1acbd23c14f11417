// Makes chains of drafted tokens for chain.cpp, with all kinds of pairs of rows, and some chains
// that must fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/calls/chain_request.h"
#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns chains `first` to `first + count` of the input's stream, with `n` drafted tokens each
/// and an array of seeds; some offsets are such that offset + i carries into the high word. The
/// target's rows are rows of the input's source, converted to probabilities. The draft's rows are
/// other rows, the same distribution, a part of it, a mixture, or a single token; drafted tokens
/// are drawn from the draft's distribution or are arbitrary. One chain of 16 has a fault: a token
/// outside of the vocabulary, or a row that fails. Samplers that take no faults (DraftContract) get
/// no faults, and only get drafted tokens that were drawn from the draft's distribution.
ChainRequest make_chains(const CheckInput& input, std::int64_t first, std::int64_t count,
                         std::int64_t n);

/// Returns the reason why the sampler is not judged on chains of the source's dtype, or an empty
/// one if it is judged.
Lack missing_chain_dtype(const CheckInput& input);

/// Returns row `number` of the source, as probabilities [vocab] of its dtype.
std::vector<float> chain_row(const CheckInput& input, std::int64_t number);

/// Divides a row of probabilities by its sum if the profile requires a sum of 1.
void scale_for_profile(const CheckInput& input, std::vector<float>& row);

/// Returns the integer model's outcome of chain `chain`, with the random words of the request or
/// those of its seeds.
reference::ChainOutcome expected_chain(const ChainRequest& request, std::int64_t chain);

/// Returns the chains picks[0], picks[1], ... of `request`. Precondition: the request has an array
/// of seeds and no random words.
ChainRequest pick_chains(const ChainRequest& request, const std::vector<std::int64_t>& picks);

}  // namespace fairdraw::harness
