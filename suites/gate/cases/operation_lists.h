// Lists of operations for batches in which each row has its own operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {

/// A vocabulary as large as those of large models; ids need 17 bits.
inline constexpr std::int64_t kLargeVocab = 131072;

/// Returns operations of everyday requests, all different, greedy ones among them.
std::vector<Operation> everyday_operations();

/// Returns operations with every parameter at the ends of its range and next to them, alone and
/// combined. top_k is 1, 0, -1, vocab - 1, vocab or vocab + 1, and temperature 0, 2^-126, 1e-4, 1,
/// 5 or 2^64. Both top_p and min_p are 0, 2^-149, 1 - 2^-24 or 1.
std::vector<Operation> edge_operations(std::int64_t vocab);

/// Returns operations with top_k from 255 to the largest int, around the limits of bytes, blocks,
/// 16 bits and the vocabulary. Each top_k occurs alone, and combined with a temperature and top_p.
std::vector<Operation> large_k_operations(std::int64_t vocab);

/// Returns `count` combinations of parameters from their whole ranges: temperatures from 2^-8 to
/// 2^5, top_k from 1 to beyond the vocabulary, top_p and min_p in the middle and within 2^-21 of
/// both ends.
std::vector<Operation> scattered_operations(std::int64_t vocab, std::size_t count);

/// Returns operations with top_p exactly at the partial sums 1/2, 3/4 and 7/8 of mass_exactly_p,
/// and one float32 to each side. The temperature of these operations turns integer logits into
/// dyadic weights.
std::vector<Operation> partial_sum_operations();

/// An operation that is a default of an engine, or that a model's card recommends.
struct TypedValues {
  const char* operation;
  const char* source;
};
std::span<const TypedValues> typed_values();

/// Returns the operations of all TypedValues, greedy ones among them.
std::vector<Operation> typed_operations();

/// Returns operations with top_k of vocab - 1, vocab, vocab + 1, vocab + 1000 and the largest int,
/// each alone and with top_p.
std::vector<Operation> top_k_next_to_vocab(std::int64_t vocab);

/// The filters that an operation may use.
struct Filters {
  bool top_k = false, top_p = false, min_p = false;
};

/// Returns those edge and everyday operations that use only `filters`. The operations are for
/// samplers that lack the other filters, and skip every list that contains one of those.
std::vector<Operation> operations_with(const Filters& filters, std::int64_t vocab);

/// The functions below return the operations without min_p, and those with min_p alone (or no
/// filter). Operations on probabilities support these two combinations in one call.
std::vector<Operation> without_min_p(std::vector<Operation> operations);
std::vector<Operation> min_p_alone(std::vector<Operation> operations);

/// The value is 0x1.715476p0, the float32 nearest to log2(e). At this temperature c = 1 in the
/// specification, so that a logit is an exponent of 2.
inline constexpr float kDyadicTemperature = 0x1.715476p0F;

}  // namespace fairdraw::suites
