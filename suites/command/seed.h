// text for the report: "--seed 7", "--seed-from TEXT", "commit 0123...", "version 0.1.0"
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fairdraw::cli {

struct SeedChoice {
  std::uint64_t value = 0;
  std::string source;  ///< "--seed 7", "--seed-from TEXT", "commit 0123...", "version 0.1.0"
};

/// Chooses the seed. `seed`: decimal or 0x; `seed_from`: any text. Without either option, the seed
/// comes from the commit of the current directory's repository, so that a rerun draws the same, or
/// otherwise from the version of this program. Throws harness::UsageError if both are given, or
/// `seed` is not a 64-bit number.
SeedChoice choose_seed(const std::optional<std::string>& seed,
                       const std::optional<std::string>& seed_from);

/// Returns the commit of the current directory's repository, or an empty string without a
/// repository or git.
std::string current_commit();

/// Parses an unsigned 64-bit number, decimal or 0x. Throws harness::UsageError that names `field`.
std::uint64_t parse_uint64(const std::string& field, const std::string& text);

}  // namespace fairdraw::cli
