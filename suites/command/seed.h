// text for the report: "--seed 7", "--seed-from TEXT", "commit 0123...", "version 0.1.0"
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fairdraw::cli {

struct SeedChoice {
  std::uint64_t value = 0;
  std::string source;  ///< origin of the seed, such as "--seed 7", "--seed-from TEXT", "commit
                       ///< 0123..." or "version 0.1.0"
};

/// Chooses the seed. `seed` is a number, decimal or with 0x; `seed_from` is any text. Without
/// either option, the seed comes from the commit of the current directory's repository, so that
/// running the commit again draws the same. Without a repository, the seed comes from the version
/// of this program. Throws harness::UsageError if both are given, or if `seed` is not a 64-bit
/// number.
SeedChoice choose_seed(const std::optional<std::string>& seed,
                       const std::optional<std::string>& seed_from);

/// Returns the commit of the current directory's repository, or an empty string if there is no
/// repository or no git.
std::string current_commit();

/// Returns the unsigned 64-bit number that a text spells, decimal or with 0x. Throws
/// harness::UsageError that names `field` for other texts.
std::uint64_t parse_uint64(const std::string& field, const std::string& text);

}  // namespace fairdraw::cli
