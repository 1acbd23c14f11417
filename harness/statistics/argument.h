// Checks arguments. Each require function throws a std::invalid_argument that has the field, its
// value and its range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fairdraw::statistics {

/// The maximum number of draws, because counts are stored in doubles, which represent every integer
/// up to 2^53.
inline constexpr std::uint64_t kMaxDraws = std::uint64_t{1} << 53;

/// Requires a value in [0, 1].
void require_probability(std::string_view field, double value);
/// Requires a value in (0, 1/2], because with an error rate above 1/2 guessing would be better than
/// the test.
void require_error_rate(std::string_view field, double value);
/// Requires a value in (0, 1].
void require_discrepancy(std::string_view field, double value);
/// Requires a value in [0, infinity).
void require_statistic(std::string_view field, double value);
/// Requires a value in [lowest, 2^53].
void require_draws(std::string_view field, std::uint64_t value, std::uint64_t lowest);
/// Requires two arrays of equal size that have at least one entry.
void require_same_size(std::string_view field, std::size_t size, std::string_view other,
                       std::size_t other_size);
/// The maximum distance from 1 of a distribution's sum. n entries that are divided by a plain sum
/// of n doubles are off by at most (n + 2) * 2^-53 in all; n is at most 2^20 (the largest
/// vocabulary), and the cells of a pooled distribution inherit this error. The slack is twice that
/// error, 2.4e-10, which is four orders of magnitude below the distance that a float32 sampler may
/// have.
inline constexpr double kDistributionSlack = 2 * (0x1p20 + 2) * 0x1p-53;

/// Requires a distribution, whose entries are in [0, 1] and add up to 1 within kDistributionSlack.
void require_distribution(std::string_view field, std::span<const double> probability);
/// Requires a distribution in which no entry is 0. A token that the distribution excludes is judged
/// exactly, and is not a cell.
void require_positive_distribution(std::string_view field, std::span<const double> probability);
/// Returns the sum of counts, which must be in [1, 2^53].
std::uint64_t require_total(std::string_view field, std::span<const std::uint64_t> counts);
/// Returns ceil(value) as a number of draws. Throws an exception with `field` and `field_value` if
/// the number exceeds 2^53.
std::uint64_t draws_from(double value, std::string_view field, double field_value);

}  // namespace fairdraw::statistics
