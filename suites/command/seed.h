// Where a run's seed comes from, and how the report says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fairdraw::cli {

struct SeedChoice {
  std::uint64_t value = 0;
  std::string source;  ///< "--seed 7", "--seed-from TEXT", "commit 0123...", "version 0.1.0"
};

/// `seed`: decimal or 0x; `seed_from`: any text. Without both: the commit of the repository that
/// holds the current directory, so that a rerun draws the same; else the version of this program.
/// Throws harness::UsageError where both are given, or `seed` is no 64-bit number.
SeedChoice choose_seed(const std::optional<std::string>& seed,
                       const std::optional<std::string>& seed_from);

/// Commit of the current directory's repository; empty where there is none, or no git.
std::string current_commit();

/// An unsigned 64-bit number, decimal or 0x; throws harness::UsageError naming `field`.
std::uint64_t parse_uint64(const std::string& field, const std::string& text);

}  // namespace fairdraw::cli
