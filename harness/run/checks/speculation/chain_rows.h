// Chains of drafted tokens for chain.cpp: rows that meet in every way, and some that fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/calls/chain_request.h"
#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Chains `first` to `first + count` of the input's stream, `n` drafted tokens each; an array of
/// seeds, offsets at which offset + i carries into the high word among them. The target's rows are
/// those of the input's source as probabilities; drafts are other rows, the same distribution, a
/// part of it, a mixture, or a single token; drafted tokens come from the draft's distribution or
/// from anywhere. One chain of 16 has a fault: a token outside of the vocabulary, or a row that
/// fails. Samplers that take no faults (DraftContract) get none of these, and drafted tokens of the
/// draft's alone.
ChainRequest make_chains(const CheckInput& input, std::int64_t first, std::int64_t count,
                         std::int64_t n);

/// Why chains of the source's dtype are not asked of the sampler; empty: they are.
Lack missing_chain_dtype(const CheckInput& input);

/// Row `number` of the source, as probabilities [vocab] of its dtype.
std::vector<float> chain_row(const CheckInput& input, std::int64_t number);

/// Divides a row of probabilities by its sum where the profile asks for a sum of 1.
void scale_for_profile(const CheckInput& input, std::vector<float>& row);

/// What the integer model says of chain `chain`, from the request's words or those of its seeds.
reference::ChainOutcome expected_chain(const ChainRequest& request, std::int64_t chain);

/// Chains picks[0], picks[1], ... of `request`, which has an array of seeds and no words.
ChainRequest pick_chains(const ChainRequest& request, const std::vector<std::int64_t>& picks);

}  // namespace fairdraw::harness
