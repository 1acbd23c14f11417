// Lists of operations that a batch mixes, one a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {

/// A vocabulary of today's largest, in which an id needs 17 bits.
inline constexpr std::int64_t kLargeVocab = 131072;

/// Everyday requests, all different, greedy ones among them.
std::vector<Operation> everyday_operations();

/// Every parameter at the ends of its range and next to them, alone and together: top_k 1, 0, -1,
/// vocab - 1, vocab, vocab + 1; top_p 0, 2^-149, 1 - 2^-24, 1; temperature 0, 2^-126, 1e-4, 1, 5,
/// 2^64; min_p 0, 2^-149, 1 - 2^-24, 1.
std::vector<Operation> edge_operations(std::int64_t vocab);

/// top_k from 255 to the largest int, around what bytes, blocks and 16 bits hold and around the
/// vocabulary; each alone, and before a temperature and top_p.
std::vector<Operation> large_k_operations(std::int64_t vocab);

/// `count` combinations from all over the ranges: temperatures from 2^-8 to 2^5, top_k from 1 to
/// beyond the vocabulary, top_p and min_p in the middle and within 2^-21 of both ends.
std::vector<Operation> scattered_operations(std::int64_t vocab, std::size_t count);

/// top_p exactly at the partial sums 1/2, 3/4, 7/8 of mass_exactly_p, and one float32 to each
/// side, at the temperature that makes integer logits dyadic weights.
std::vector<Operation> partial_sum_operations();

/// An operation that is a default of an engine, or that a model's card recommends.
struct TypedValues {
  const char* operation;
  const char* source;
};
std::span<const TypedValues> typed_values();

/// The operations of all of these, greedy among them.
std::vector<Operation> typed_operations();

/// top_k of vocab - 1, vocab, vocab + 1, vocab + 1000 and the largest int, each alone and before
/// top_p.
std::vector<Operation> top_k_next_to_vocab(std::int64_t vocab);

/// Filters that an operation may use.
struct Filters {
  bool top_k = false, top_p = false, min_p = false;
};

/// Those of the edge and everyday operations that use no other filters: for samplers that have no
/// others, and skip every list in which one occurs.
std::vector<Operation> operations_with(const Filters& filters, std::int64_t vocab);

/// Those without min_p, and those with nothing but min_p (or no filter): what the operations on
/// probabilities can do in one call.
std::vector<Operation> without_min_p(std::vector<Operation> operations);
std::vector<Operation> min_p_alone(std::vector<Operation> operations);

/// 0x1.715476p0, the float32 nearest to log2(e): c = 1 in the specification, so that a logit is
/// an exponent of 2.
inline constexpr float kDyadicTemperature = 0x1.715476p0F;

}  // namespace fairdraw::suites
