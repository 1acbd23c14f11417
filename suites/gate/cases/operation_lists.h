// Lists of operations that a batch mixes, one per row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {

/// A vocabulary size like the largest in use today; ids need 17 bits.
inline constexpr std::int64_t kLargeVocab = 131072;

/// Returns everyday requests, all different, including greedy ones.
std::vector<Operation> everyday_operations();

/// Returns every parameter at and next to the ends of its range, alone and combined: top_k 1, 0,
/// -1, vocab - 1, vocab, vocab + 1; top_p 0, 2^-149, 1 - 2^-24, 1; temperature 0, 2^-126, 1e-4, 1,
/// 5, 2^64; min_p 0, 2^-149, 1 - 2^-24, 1.
std::vector<Operation> edge_operations(std::int64_t vocab);

/// Returns top_k from 255 to the largest int, around the limits of bytes, blocks, 16 bits and the
/// vocabulary; each alone, and combined with a temperature and top_p.
std::vector<Operation> large_k_operations(std::int64_t vocab);

/// Returns `count` combinations of parameters from the whole ranges: temperatures from 2^-8 to 2^5,
/// top_k from 1 to beyond the vocabulary, top_p and min_p in the middle and within 2^-21 of both
/// ends.
std::vector<Operation> scattered_operations(std::int64_t vocab, std::size_t count);

/// Returns top_p exactly at the partial sums 1/2, 3/4, 7/8 of mass_exactly_p and one float32 to
/// each side, at the temperature that turns integer logits into dyadic weights.
std::vector<Operation> partial_sum_operations();

/// An operation that is a default of an engine, or that a model's card recommends.
struct TypedValues {
  const char* operation;
  const char* source;
};
std::span<const TypedValues> typed_values();

/// Returns the operations of all TypedValues, including greedy ones.
std::vector<Operation> typed_operations();

/// Returns top_k of vocab - 1, vocab, vocab + 1, vocab + 1000 and the largest int, each alone and
/// with top_p.
std::vector<Operation> top_k_next_to_vocab(std::int64_t vocab);

/// Filters that an operation may use.
struct Filters {
  bool top_k = false, top_p = false, min_p = false;
};

/// Returns the edge and everyday operations that use only `filters`, for samplers that lack the
/// other filters and skip every list that contains one.
std::vector<Operation> operations_with(const Filters& filters, std::int64_t vocab);

/// Return the operations without min_p, and those with min_p alone (or no filter): the two
/// combinations that operations on probabilities support in one call.
std::vector<Operation> without_min_p(std::vector<Operation> operations);
std::vector<Operation> min_p_alone(std::vector<Operation> operations);

/// The value is 0x1.715476p0, the float32 nearest to log2(e). At this temperature c = 1 in the
/// specification, so that a logit is an exponent of 2.
inline constexpr float kDyadicTemperature = 0x1.715476p0F;

}  // namespace fairdraw::suites
