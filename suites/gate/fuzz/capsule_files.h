// Functions that read and write capsule files.
#pragma once

#include <filesystem>
#include <string>

#include "suites/gate/fuzz/capsule.h"

namespace fairdraw::suites::fuzz {

/// Returns whether an argument of `replay` is a file: a file ends with ".json", and no case id
/// does.
bool is_capsule(const std::string& argument);

/// Reads a capsule file of at most kMaxCapsuleBytes. Throws harness::UsageError with the path and
/// the place of the error.
Capsule load_capsule(const std::filesystem::path& path);

/// Writes FOLDER/PROPERTY-HASH.json atomically and returns its path; the hash is that of the
/// content. Throws harness::UsageError if the folder is not writable, and std::length_error if the
/// case is too large for a capsule.
std::filesystem::path save_capsule(const std::filesystem::path& folder, const Capsule& capsule);

}  // namespace fairdraw::suites::fuzz
