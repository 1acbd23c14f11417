// What the translations of engines' requests share: checks that name field, value and range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fairdraw/request_parameters.h"

namespace fairdraw::requests {

std::string text_of(double value);
std::string text_of(std::int64_t value);

/// A field must be in its range; NaN is in none.
Error in_range(const char* field, double value, double least, double most, const char* range);
Error in_range(const char* field, std::int64_t value, std::int64_t least, std::int64_t most,
               const char* range);

/// 0 < value, finite.
Error positive(const char* field, double value);
/// 0 < value <= 1.
Error unit_without_zero(const char* field, double value);

/// A feature that fairdraw has not: the field must have its neutral value.
Error only(bool neutral, const char* field, const std::string& value, const std::string& allowed);
Error only_unset(bool unset, const char* field);

Error check_ids(const char* field, const TokenIds& ids, std::int64_t vocab);
/// Words must have an id at least.
Error check_words(const char* field, const std::vector<TokenIds>& words, std::int64_t vocab);
/// Biases to float32: no NaN, no +inf, within 2^64; -inf bans.
Error take_bias(const char* field, const TokenBiases& biases, std::int64_t vocab,
                RequestParameters& parameters);

/// top_k as int32; 0 where it keeps the whole vocabulary.
std::int32_t top_k_of(std::int64_t top_k, std::int64_t vocab);
/// A length; kNoMaxTokens where it is absent or beyond int32.
std::int32_t length_of(std::optional<std::int64_t> length);

/// A seed of Python's as 64 bits, two's complement.
std::optional<std::uint64_t> seed_of(std::optional<std::int64_t> seed);

/// Greedy: temperature 0, and filters off.
void make_greedy(RequestParameters& parameters);

/// min_tokens <= max_tokens.
Error check_lengths(const char* min_field, const char* max_field,
                    const RequestParameters& parameters);

/// The last step of every translation: what became of the numbers as float32 is in the ranges of
/// `sample` and its logits processing. `parameters` is written to `result` if so, as greedy where
/// `sample` is (top_k 1, top_p 0).
Error finish(const RequestParameters& parameters, RequestParameters& result);

/// Checks the size of the vocabulary.
Error check_vocab(std::int64_t vocab);

}  // namespace fairdraw::requests
