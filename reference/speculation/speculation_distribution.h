// The distribution of what speculation emits (speculation_model.h), by enumeration, in exact
// fractions.
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

/// Probability of each sequence of emitted tokens.
using SequenceDistribution = std::map<std::vector<std::int32_t>, Probability>;

/// The row after a prefix of tokens.
using RowBehind = std::function<IntegerRow(std::span<const std::int32_t> prefix)>;

/// Finds the law of what accept_chain_model emits where each random word is uniform and independent
/// of the others: every interval of words that leads to one decision is found, so that the
/// distribution is exact. Drafts of n tokens are drawn from `drawn_from`, and judged as drawn from
/// `draft`; those two differ only to show what comes of it. Cost: vocab^n times some hundred
/// decisions.
SequenceDistribution chain_distribution(const RowBehind& target, const RowBehind& draft,
                                        const RowBehind& drawn_from, std::size_t n);

/// What is emitted for one given chain of tokens whose distribution is unknown.
SequenceDistribution given_chain_distribution(const RowBehind& target,
                                              std::span<const std::int32_t> drafted);

/// Finds the law of what accept_tree_model emits for a tree of given tokens.
SequenceDistribution tree_distribution(const RowBehind& target,
                                       std::span<const std::int32_t> drafted,
                                       std::span<const std::int32_t> parents);

/// How a tree of unknown tokens comes to its tokens.
struct SampledTree {
  std::span<const std::int32_t> parents;
  SiblingSampling drawn, judged;  ///< one of them, but to show what comes of two
};

/// Finds the law of what accept_tree_model emits for trees whose tokens are drawn from `draft`,
/// exactly so.
SequenceDistribution sampled_tree_distribution(const RowBehind& target, const RowBehind& draft,
                                               const SampledTree& tree);

/// The distribution of the first `length` tokens where what `distribution` leaves open is drawn
/// from the target, as later steps do.
SequenceDistribution completed(const SequenceDistribution& distribution, const RowBehind& target,
                               std::size_t length);

/// The distribution that speculation has to give: `length` tokens from the target, one by one.
SequenceDistribution sequences_of(const RowBehind& target, std::size_t length);

/// Sum over all sequences of |a - b| / 2.
Probability total_variation(const SequenceDistribution& a, const SequenceDistribution& b);

}  // namespace fairdraw::reference
