// Computes the exact distribution of the tokens that speculation emits (speculation_model.h), in
// fractions, by enumeration.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "fairdraw/speculative.h"
#include "reference/integer_model.h"

namespace fairdraw::reference {

using Probability = boost::multiprecision::cpp_rational;

/// The probability of each sequence of emitted tokens.
using SequenceDistribution = std::map<std::vector<std::int32_t>, Probability>;

/// A function that returns the row of the model after a prefix of tokens.
using RowBehind = std::function<IntegerRow(std::span<const std::int32_t> prefix)>;

/// Finds the distribution of the tokens that accept_chain_model emits if all random words are
/// uniform and independent. The function finds every interval of random words that leads to one
/// decision, so the distribution is exact. Drafts of n tokens are drawn from `drawn_from`, and
/// judged as if they were drawn from `draft`; the two differ only in tests that show the effect of
/// a wrong draft. The enumeration costs vocab^n times some hundred decisions.
SequenceDistribution chain_distribution(const RowBehind& target, const RowBehind& draft,
                                        const RowBehind& drawn_from, std::size_t n);

/// Finds the distribution of the tokens that accept_chain_model emits with AcceptRule::block, in
/// the same way.
SequenceDistribution block_distribution(const RowBehind& target, const RowBehind& draft,
                                        const RowBehind& drawn_from, std::size_t n);

/// Finds the distribution of the emitted tokens for one given chain of drafted tokens, whose own
/// distribution is unknown.
SequenceDistribution given_chain_distribution(const RowBehind& target,
                                              std::span<const std::int32_t> drafted);

/// Finds the distribution of the tokens that accept_tree_model emits for a tree of given tokens.
SequenceDistribution tree_distribution(const RowBehind& target,
                                       std::span<const std::int32_t> drafted,
                                       std::span<const std::int32_t> parents);

/// A tree whose tokens are unknown, and the way in which its tokens are drawn and judged.
struct SampledTree {
  std::span<const std::int32_t> parents;
  SiblingSampling drawn, judged;  ///< equal, except in tests of the effect of a difference
};

/// Finds the exact distribution of the tokens that accept_tree_model emits for trees whose tokens
/// are drawn from `draft`.
SequenceDistribution sampled_tree_distribution(const RowBehind& target, const RowBehind& draft,
                                               const SampledTree& tree);

/// Returns the distribution of the first `length` tokens of each sequence. If a sequence is
/// shorter, the missing tokens are drawn from the target, as later steps do.
SequenceDistribution completed(const SequenceDistribution& distribution, const RowBehind& target,
                               std::size_t length);

/// Returns the distribution that speculation must have: that of `length` tokens drawn from the
/// target, one after another.
SequenceDistribution sequences_of(const RowBehind& target, std::size_t length);

/// Returns the total variation distance: the sum over all sequences of |a - b| / 2.
Probability total_variation(const SequenceDistribution& a, const SequenceDistribution& b);

}  // namespace fairdraw::reference
