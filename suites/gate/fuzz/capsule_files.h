// Capsules as files.
#pragma once

#include <filesystem>
#include <string>

#include "suites/gate/fuzz/capsule.h"

namespace fairdraw::suites::fuzz {

/// Whether a replay's argument means a file: its name ends with ".json". (No case id does.)
bool is_capsule(const std::string& argument);

/// Reads no more than a capsule may have. Throws harness::UsageError with the path and the place.
Capsule load_capsule(const std::filesystem::path& path);

/// Writes FOLDER/PROPERTY-HASH.json, whole or not at all, and returns its path; the hash is that of
/// the content. Throws harness::UsageError where the folder cannot be written, std::length_error
/// where the case is too large for a capsule.
std::filesystem::path save_capsule(const std::filesystem::path& folder, const Capsule& capsule);

}  // namespace fairdraw::suites::fuzz
