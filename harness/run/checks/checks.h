// The checks of the gate. Each judges one sampler on one input and spends no more than the
// input's error budget; most spend nothing, because they are exact.
//
// None can see what its input does not provoke: the case table decides which rows they get.
#pragma once

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Masks and support sizes: equal to the integer model's (exact samplers), and never against the
/// real oracle's in and out (all samplers).
CheckOutcome check_mask(const CheckInput& input);

/// Tokens, statuses: equal to the integer model's, draw by draw. Exact samplers only.
CheckOutcome check_tokens(const CheckInput& input);

/// No token outside of the support or the vocabulary; -1 if and only if the status is not ok.
CheckOutcome check_support(const CheckInput& input);

/// Every kind of bad row and bad parameter gets its status and -1; its batch-mates get the tokens
/// that they get alone.
CheckOutcome check_status(const CheckInput& input);

/// Penalties, bias and bans before the temperature, in every mixture: tokens, statuses and masks of
/// the integer model (exact samplers), or of the oracle on the row that was processed beforehand
/// (all others). Histories as lists, masks or counts, lists in any order, rows at any place of the
/// batch, alone, and rows that were processed beforehand give the same. Every bad value gets its
/// status, and its batch-mates go on.
CheckOutcome check_processing(const CheckInput& input);

/// The same request gives the same token: again, alone, in any batch, at any position, with any
/// stride, alignment, number of threads, through `indices`, beside greedy and padding rows.
CheckOutcome check_replay(const CheckInput& input);

/// What the sampler promises of its random bits (SamplerDescription::randomness), axis by axis:
/// seeds that are neighbours or differ in one bit, offsets, samples, outputs with one seed, calls
/// of a generator of its own. On a flat row of a large vocabulary no gram of tokens, no step
/// between tokens and no difference between sequences comes back among a thousand draws; the first
/// 64 of them show what is shared, frozen, shifted or affine. With `draws`, long streams through
/// their distribution: uniform, uncorrelated at small lags and between streams, and independent in
/// tables of pairs. The same seeds and offsets again give the same tokens.
CheckOutcome check_streams(const CheckInput& input);

/// Given random words at every end of a token's interval, at 0 and at all ones: the integer model's
/// token (exact samplers), or one whose interval reaches the word within the error that float32 may
/// make (all others). Samplers that take words only.
CheckOutcome check_scripted(const CheckInput& input);

/// Relations between calls: a shift of all logits that is exact, or a scale of all probabilities; a
/// permutation of the vocabulary, columns of nothing at the end, filters that are off in different
/// ways, an empty batch.
CheckOutcome check_metamorphic(const CheckInput& input);

/// FTZ, DAZ and the four rounding modes of the caller change no token and no mask, and the call
/// leaves them as they were.
CheckOutcome check_float_environment(const CheckInput& input);

/// Renormalised probabilities and log-probabilities, against their specification and the oracle.
CheckOutcome check_probabilities(const CheckInput& input);

/// Log-probabilities as engines report them, in every mode that the sampler declares: values within
/// the oracle's bound, ranks, the top n and whole rows; equal tokens in order of their ids (exact
/// samplers), or in any (all others); nothing for outputs without a token.
CheckOutcome check_logprobs(const CheckInput& input);

/// Drafted chains: tokens, counts and statuses equal to the integer model's for zero-probability
/// drafts, equal distributions, single tokens, bad tokens and bad rows (exact samplers); the same
/// chain gives the same tokens again, alone and in any batch (per-request seeds); given random
/// words at every boundary of acceptance, recovery and bonus (where the sampler takes them).
CheckOutcome check_chain(const CheckInput& input);

/// Chains drafted from their distribution give the target's distribution, in the first token and in
/// pairs; what is accepted, recovered and drawn behind it is independent.
CheckOutcome check_chain_distribution(const CheckInput& input);

/// Draws from one row against its distribution: G with a finite-sample bound, DKWM in four
/// orderings (probability, id, lane of 1024, a hash of the id), the exact multinomial distribution
/// where the support is small, Pearson's chi-squared where it is valid, both ways; exact zero mass.
CheckOutcome check_chi_squared(const CheckInput& input);

/// Bets against one row's distribution: on the whole of it over up to 64 cells, and on some
/// thousand sets of tokens (lanes, tiles, head, tail, boundary, ties, single tokens). Draws in
/// growing batches, ends red as soon as the evidence suffices, goes on to four times the draws
/// while it is suspicious.
CheckOutcome check_bets(const CheckInput& input);

/// Exact binomial tests of named tokens and groups: most likely, first, last, boundary token,
/// tail, and each lane of 16.
CheckOutcome check_binomial(const CheckInput& input);

/// Draws of two samplers from one row: no difference in the distribution over cells of probability,
/// nor in any of some thousand sets of tokens, beyond what the profile lets two right samplers
/// differ by. The row's distribution chooses cells and sets; that it is right is no part of the
/// question.
CheckOutcome check_same_distribution(const CheckInput& input, Sampler& other);

/// The same masks and support sizes from two samplers, where both report them, but for tokens that
/// the profile leaves open; the same tokens and statuses where both claim the integer arithmetic.
CheckOutcome check_same_results(const CheckInput& input, Sampler& other);

/// Draws from many different rows, through their distributions: uniform, and independent along the
/// stream, between neighbouring rows and between calls.
CheckOutcome check_pit(const CheckInput& input);

}  // namespace fairdraw::harness
