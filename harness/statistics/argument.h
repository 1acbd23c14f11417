// Checks of arguments. Each throws std::invalid_argument with the field, its value and its range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fairdraw::statistics {

/// Draws are counted in doubles, which hold every integer up to here.
inline constexpr std::uint64_t kMaxDraws = std::uint64_t{1} << 53;

/// [0, 1].
void require_probability(std::string_view field, double value);
/// (0, 1/2]: above, guessing would do better than the test.
void require_error_rate(std::string_view field, double value);
/// (0, 1].
void require_discrepancy(std::string_view field, double value);
/// [0, infinity).
void require_statistic(std::string_view field, double value);
/// [lowest, 2^53].
void require_draws(std::string_view field, std::uint64_t value, std::uint64_t lowest);
/// Equal sizes, at least one entry.
void require_same_size(std::string_view field, std::size_t size, std::string_view other,
                       std::size_t other_size);
/// How far from 1 a distribution may add up: n entries normalised by a plain sum of n doubles are
/// off by at most (n + 2) * 2^-53 in all, n is at most 2^20 (the largest vocabulary), and cells of
/// a pooled distribution inherit it. Twice that is let through: 2.4e-10, four orders below the
/// distance that a float32 sampler may have.
inline constexpr double kDistributionSlack = 2 * (0x1p20 + 2) * 0x1p-53;

/// A distribution: entries in [0, 1] that add up to 1 within kDistributionSlack.
void require_distribution(std::string_view field, std::span<const double> probability);
/// As require_distribution, and no entry 0: what the distribution excludes is judged exactly, not
/// as a cell.
void require_positive_distribution(std::string_view field, std::span<const double> probability);
/// Sum of counts, in [1, 2^53].
std::uint64_t require_total(std::string_view field, std::span<const std::uint64_t> counts);
/// ceil(value) as a number of draws; throws naming `field` when it exceeds 2^53.
std::uint64_t draws_from(double value, std::string_view field, double field_value);

}  // namespace fairdraw::statistics
